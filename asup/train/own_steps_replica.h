// The replicas of strategies in which workers step on their own.
#pragma once

#include <memory>
#include <string>

#include "asup/collective/communicator.h"
#include "asup/net/job.h"
#include "asup/sync/replica.h"
#include "asup/train/strategy.h"

namespace asup::train {

// How long the whole run is, where that is known, and how much of it was done before.
struct Progress {
  std::int64_t steps = 0, done = 0;
};

// As make_replica() of distribute.h. needs: a settled strategy that has_own_steps()
std::unique_ptr<Replica> make_own_steps_replica(Job& job, Communicator& communicator,
                                                torch::nn::Module& model,
                                                torch::optim::Optimizer& optimizer,
                                                const Strategy& strategy,
                                                const std::string& observed,
                                                const Progress& progress);

}  // namespace asup::train
