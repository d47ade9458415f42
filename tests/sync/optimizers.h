// Torch's optimizers as values, for tests that go through several of them.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>

namespace asup::testing {

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(torch::nn::Module&)>;

template <typename Optimizer, typename Options>
MakeOptimizer maker(Options options) {
  return [options](torch::nn::Module& module) {
    return std::make_unique<Optimizer>(module.parameters(), options);
  };
}

}  // namespace asup::testing
