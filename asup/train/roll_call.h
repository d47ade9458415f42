// Who is left of a run's workers, where it goes on without those that are lost. Used from the
// thread that trains.
#pragma once

#include <functional>
#include <vector>

#include "asup/train/run.h"

namespace asup::train {

class RollCall {
 public:
  // Collective. `rank`: this worker's in the job.
  RollCall(Run& run, int rank);

  // Does `together`, in which all workers meet; where somebody is lost in it, again from its begin,
  // by those who are left. Throws what else goes wrong, and JobFailed where rank 0 is lost, which
  // keeps the run folder. Collective.
  void meet(const std::function<void()>& together);

  const std::vector<int>& left() const { return workers_; }  // by their ranks in the job

 private:
  bool regroup();
  std::vector<int> present();

  Run& run_;
  const int rank_;
  std::vector<int> workers_;
};

}  // namespace asup::train
