// What the conformance of replicas is tried with: a model whose parameters are not all used, and
// optimizers.
#pragma once

#include <memory>
#include <vector>

#include "tests/sync/training.h"

namespace asup::testing {

// Takes one of two ways for each input; a third is never taken.
struct Forked : torch::nn::Module {
  Forked()
      : trunk(register_module("trunk", torch::nn::Linear(8, 8))),
        left(register_module("left", torch::nn::Linear(8, 4))),
        right(register_module("right", torch::nn::Linear(8, 4))),
        spare(register_module("spare", torch::nn::Linear(8, 4))) {
    fill(*this, 3);
  }
  torch::Tensor forward(const torch::Tensor& x, bool go_left) {
    const auto y = torch::tanh(trunk(x));
    return go_left ? left(y) : right(y);
  }
  torch::nn::Linear trunk, left, right, spare;
};

inline torch::Tensor loss_of(Forked& model, const Batch& batch, bool go_left) {
  return torch::mse_loss(model.forward(batch.data, go_left), batch.target);
}

inline std::unique_ptr<torch::optim::Optimizer> plain_sgd(torch::nn::Module& module) {
  return std::make_unique<torch::optim::SGD>(module.parameters(), torch::optim::SGDOptions(0.05));
}

inline std::unique_ptr<torch::optim::Optimizer> momentum_sgd(torch::nn::Module& module) {
  return std::make_unique<torch::optim::SGD>(
      module.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
}

inline std::unique_ptr<torch::optim::Optimizer> adam(torch::nn::Module& module) {
  return std::make_unique<torch::optim::Adam>(module.parameters(),
                                              torch::optim::AdamOptions(0.001).eps(1e-4));
}

// Biases learn faster than weights, without momentum and decay.
inline std::unique_ptr<torch::optim::Optimizer> two_groups(torch::nn::Module& module) {
  std::vector<torch::Tensor> weights, biases;
  for (const auto& parameter : module.parameters())
    (parameter.dim() > 1 ? weights : biases).push_back(parameter);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(weights,
                      std::make_unique<torch::optim::SGDOptions>(
                          torch::optim::SGDOptions(0.02).momentum(0.9).weight_decay(0.01)));
  groups.emplace_back(biases, std::make_unique<torch::optim::SGDOptions>(0.1));
  return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.05));
}

// Adam's tensors of each parameter.
inline std::vector<torch::Tensor> moments_of(const Mlp& model, torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> moments;
  for (const auto& parameter : model.parameters()) {
    const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    auto& state = static_cast<torch::optim::AdamParamState&>(*found->second);
    moments.push_back(state.exp_avg().clone());
    moments.push_back(state.exp_avg_sq().clone());
    moments.push_back(torch::tensor(static_cast<float>(state.step())));
  }
  return moments;
}

}  // namespace asup::testing
