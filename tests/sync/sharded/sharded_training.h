// Models trained with shards and without, for tests of both.
#pragma once

#include <gmock/gmock.h>

#include <map>

#include "asup/optim/asup_momentum.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/model/optimizer_state.h"
#include "tests/sync/optimizers.h"
#include "tests/sync/training.h"

namespace asup::testing {

// Tensors of many sizes, two of them longer than a chunk of shards, and one of a single element.
struct Uneven : torch::nn::Module {
  explicit Uneven(torch::ScalarType type = torch::kFloat32)
      : first(register_module("first", torch::nn::Linear(8, 67))),
        second(register_module("second", torch::nn::Linear(67, 67))),
        third(register_module("third", torch::nn::Linear(67, 4))),
        scale(register_parameter("scale", torch::ones({1}))) {
    to(type);
    fill(*this, 1);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return scale * third(torch::tanh(second(torch::tanh(first(x)))));
  }
  torch::nn::Linear first, second, third;
  torch::Tensor scale;
};

struct NamedOptimizer {
  const char* name;
  MakeOptimizer make;
};

inline std::vector<NamedOptimizer> optimizers_to_shard() {
  using namespace torch::optim;
  return {
      {"sgd", maker<SGD>(SGDOptions(0.05))},
      {"momentum", maker<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(0.01))},
      {"adam", maker<Adam>(AdamOptions(0.01).amsgrad(true))},
      {"adamw", maker<AdamW>(AdamWOptions(0.01))},
      {"rmsprop", maker<RMSprop>(RMSpropOptions(0.001).momentum(0.9).centered(true))},
      {"adagrad", maker<Adagrad>(AdagradOptions(0.01))},
      {"lars", maker<optim::Lars>(optim::LarsOptions(0.1).weight_decay(0.01))},
      {"lamb", maker<optim::Lamb>(optim::LambOptions(0.01).weight_decay(0.01))},
      {"asup", maker<optim::AsupMomentum>(optim::AsupOptions(0.001).weight_decay(0.01))}};
}

// Parameters are gathered a layer at a time, however small they are.
inline AllReduceOptions options_of(Shard shard) {
  if (shard != Shard::parameters) return {.shard = shard};
  return {.in_place_bytes = 1, .shard = shard};
}

using NamedTensors = std::map<std::string, torch::Tensor>;

inline NamedTensors by_name(const std::vector<sync::NamedTensor>& tensors) {
  NamedTensors named;
  for (const auto& [name, tensor] : tensors) named[name] = tensor.detach().clone();
  return named;
}

// Bit by bit.
inline void expect_same(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    ASSERT_TRUE(other != b.end()) << name;
    EXPECT_TRUE(torch::equal(tensor, other->second)) << name;
  }
}

}  // namespace asup::testing
