// Who is left of a run's workers, where it goes on without those that are lost. The run folder is
// kept by the lowest of them, as long as that one can see it; with servers, by rank 0 alone. Used
// from the thread that trains.
#pragma once

#include <vector>

#include "asup/sync/recovery.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

class RunRecovery {
 public:
  // needs: is_for()
  RunRecovery(RunState& run, Job& job);

  // Whether workers go on from memory. By all-reduce they do where all are asked to; else a loss
  // ends the generation. Collective.
  static bool is_for(RunState& run, const Job& job);

  // After JobFailed, by all who are left, each wherever it was: whether somebody was lost and they
  // are together again, so that they can go on. Throws JobFailed where they cannot. Collective.
  bool regroup();

  // Throws JobFailed where this worker may not go on. Quick.
  void require_place() const { recovery_.require_place(); }

  const std::vector<int>& left() const { return recovery_.left(); }  // by their ranks in the job

 private:
  RunState& run_;
  const int rank_;
  sync::Recovery recovery_;
};

}  // namespace asup::train
