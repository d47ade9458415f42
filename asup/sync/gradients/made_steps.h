// After a loss: how far those who are left have come, where all ranks step together.
//
// A step is made on a rank when its exchange has ended there, which takes all ranks. So whoever has
// made the most steps has made one more than the others at most: the one in which a rank was lost.
// Collective; called by the thread that trains.
#pragma once

#include <cstdint>
#include <optional>

#include "asup/collective/communicator.h"

namespace asup::sync {

// Of one rank.
struct MadeSteps {
  std::optional<std::uint64_t> steps;  // none: it was taking a model over when that one was lost
  std::uint64_t exchanges = 0;         // that it began, of the run
  bool skipped = false;                // the last step
  // Of the step after those: rounds of gradients that were exchanged, and whether the averages of
  // the last one are there still.
  std::uint64_t rounds = 0;
  bool holds_averages = false;
  double kept_norm = 0;  // of what it has kept of gradients for later exchanges
};

struct FurthestSteps {
  std::uint64_t steps = 0;
  int rank = 0;                 // the first that has made them
  bool by_all = true;           // else others are to take its model over
  std::uint64_t least = 0;      // that a rank with a whole model has made
  bool skipped = false;         // the last one
  std::uint64_t exchanges = 0;  // the most that a rank began
  double kept_norm = 0;         // the mean of all
  std::optional<int> holder{};  // who has averages that others of as many steps have missed
};

// Throws PeerLost where none of them has a whole model, or the averages that others have missed.
FurthestSteps furthest_steps(Communicator& communicator, const MadeSteps& here);

}  // namespace asup::sync
