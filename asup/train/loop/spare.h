// A worker that has no place in the groups that train one model together, since they are whole
// without it: it waits until the job's next generation, in which there may be a place, or until the
// run has ended. It takes no part in the training and knows nothing of the weights.
//
// Used from the thread that trains.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/net/job.h"
#include "asup/train/config.h"

namespace asup::train {

// On a spare: waits for what rank 0 has to say. Whether the run was stopped, when it has ended;
// nothing where a next generation is to begin.
std::optional<bool> wait_as_spare(Job& job);

// On rank 0, which has made them before it trains: tells the spares that the run has ended. Those
// that are gone are passed over.
class Spares {
 public:
  Spares(Job& job, const TrainConfig& config);

  void tell_end(bool stopped);

 private:
  std::vector<std::unique_ptr<Communicator>> pairs_;  // with each of them
};

}  // namespace asup::train
