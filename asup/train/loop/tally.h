// Sums a few figures of a step over all ranks, beside the computation of the next one. Used from
// the thread that trains; collective.
#pragma once

#include <array>
#include <optional>

#include "asup/collective/communicator.h"

namespace asup::train {

struct StepFigures {
  double loss = 0;  // summed over samples
  double samples = 0;
  double wait_seconds = 0;  // for the exchange of gradients
  double stops = 0;         // 1: this rank was asked to stop
};

class Tally {
 public:
  // The communicator must outlive it.
  explicit Tally(Communicator& communicator) : communicator_(communicator) {}
  ~Tally();
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  // needs: collect() since the last start().
  void start(const StepFigures& own);

  // The sums of what was started last; nothing where nothing was. Throws JobFailed.
  std::optional<StepFigures> collect();
  // Gives up what was started last.
  void drop();

 private:
  Communicator& communicator_;
  std::array<double, 4> values_{};
  Work work_;
  bool under_way_ = false;
};

}  // namespace asup::train
