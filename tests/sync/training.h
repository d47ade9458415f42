// Small models, their data, and ranks that train them: what the tests of sync share.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::testing {

// Runs `body` on each rank with a communicator of all; torch computes on one thread a rank.
void train_ranks(int ranks, net::LinkKind links, const std::function<void(Communicator&)>& body);

// Fills parameters with small numbers that depend on the seed alone: torch's own generator is one
// for all threads.
void fill(torch::nn::Module& module, std::uint64_t seed);
torch::Tensor numbers(torch::IntArrayRef shape, std::uint64_t seed,
                      torch::ScalarType type = torch::kFloat32);

struct Batch {
  torch::Tensor data, target;
};
// A part of a batch: rank r's of n.
Batch part(const Batch& batch, int r, int n);

struct Mlp : torch::nn::Module {
  explicit Mlp(std::int64_t width = 16, torch::ScalarType type = torch::kFloat32);
  torch::Tensor forward(const torch::Tensor& x);
  static Batch batch(std::uint64_t seed, std::int64_t size = 24,
                     torch::ScalarType type = torch::kFloat32);
  torch::nn::Linear first, second, third;
};

struct Cnn : torch::nn::Module {
  Cnn();
  torch::Tensor forward(const torch::Tensor& x);
  static Batch batch(std::uint64_t seed);
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear out;
};

template <typename Model>
torch::Tensor loss_of(Model& model, const Batch& batch) {
  return torch::mse_loss(model.forward(batch.data), batch.target);
}

// Deep copies of a module's parameters.
std::vector<torch::Tensor> snapshot(const torch::nn::Module& module);

// |a - b| / |b| over all tensors together.
double distance(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b);

}  // namespace asup::testing
