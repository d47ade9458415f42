// Models trained by all-reduce, and by one process, for tests of it.
#pragma once

#include "asup/sync/gradients/all_reduce_replica.h"
#include "tests/sync/training.h"

namespace asup::testing {

inline torch::optim::SGD sgd(torch::nn::Module& module) {
  return torch::optim::SGD(module.parameters(), torch::optim::SGDOptions(0.05));
}

// One process with the whole batch.
template <typename Model>
std::vector<torch::Tensor> trained_alone(int steps) {
  Model model;
  auto optimizer = sgd(model);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(model, Model::batch(step)).backward();
    optimizer.step();
  }
  return snapshot(model);
}

template <typename Model>
void train(Replica& replica, torch::optim::Optimizer& optimizer, Model& model,
           const Communicator& communicator, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    optimizer.zero_grad();
    loss_of(model, part(Model::batch(step), communicator.rank(), communicator.size())).backward();
    replica.step();
  }
}

}  // namespace asup::testing
