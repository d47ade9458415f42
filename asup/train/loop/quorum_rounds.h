// Merges and sync points of workers that go at their own pace, as one of them sees them: those who
// are late or hold a round up are done without (gossip/quorum.h). The run's communicators are among
// those who take part, and their calls end when the round's time does. Used from the thread that
// trains.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "asup/base/error.h"
#include "asup/collective/mesh/subgroup_communicator.h"
#include "asup/gossip/quorum.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class QuorumRounds {
 public:
  using Milestone = gossip::Quorum::Milestone;

  // `patience`: how long late workers are waited for, and how long a merge may take; zero: as long
  // as it takes, and all of this does nothing. Collective.
  QuorumRounds(RunState& run, Job& job, Seconds patience);

  // This worker comes to the round of this number; `workers`: all who are left. Returns the
  // number of the last that takes place without it, or none, where it takes part. From then on
  // calls of the communicators must be done within the time that a merge may take.
  std::optional<std::uint64_t> come(std::uint64_t number, const std::vector<int>& workers,
                                    bool wait_for_all);

  // Calls may take longer from now on, but end where another worker falls silent.
  void is_merged();
  // Nothing ends but at the job's own timeout.
  void wait_as_long_as_it_takes();

  // All who take part have come so far. Throws JobFailed where the round is given up instead: then
  // it is by all, and nobody goes on from here.
  void agree(Milestone milestone);

  // After an error in a round: whether it is given up, by all who are in it, and they try again,
  // as a round with the next number. Otherwise those who are left wait as long as it takes.
  bool give_up(const JobFailed& error);

 private:
  void log_who_takes_part(const gossip::Quorum::Round& round,
                          const std::vector<int>& workers) const;
  std::array<SubgroupCommunicator*, 2> communicators() const;

  RunState& run_;
  const Seconds patience_, timeout_;
  gossip::Quorum quorum_;
  Seconds allowed_{0};          // for the merge of the last round; zero: as long as it takes
  bool given_up_ = false;       // the last round was
  std::size_t known_left_ = 0;  // workers, when this one last came
};

}  // namespace asup::train
