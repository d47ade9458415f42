// A model whose gradients are given numbers, trained with sparse gradients: what tests of these
// share.
#pragma once

#include <memory>

#include "asup/sync/compressors/sparse_gradients.h"
#include "tests/sync/gradients/all_reduce_training.h"

namespace asup::testing {

// A weight and a bias, whose gradients in a step are given numbers.
struct Given : torch::nn::Module {
  Given()
      : weight(register_parameter("weight", numbers({40, 50}, 1))),
        bias(register_parameter("bias", numbers({50}, 2))) {}
  static torch::Tensor gradient(int step, int rank) {
    return numbers({40, 50}, static_cast<std::uint64_t>(100 + 10 * step + rank));
  }
  torch::Tensor loss(int step, int rank) {
    return (weight * gradient(step, rank)).sum() + bias.sum();
  }
  torch::Tensor weight, bias;
};

inline AllReduceOptions sparse(double density, bool takes_momentum, std::uint64_t warmup = 0,
                               std::vector<int> hosts = {}) {
  const sync::Sparsity sparsity{
      .density = density, .warmup = warmup, .momentum = {}, .hosts = std::move(hosts)};
  return {.compressor = takes_momentum ? sync::dgc(sparsity) : sync::topk(sparsity)};
}

// What travels of these numbers of the sum, which keeps the rest.
inline torch::Tensor take(torch::Tensor& sum, const torch::Tensor& chosen) {
  const torch::Tensor numbers = sum.index({chosen});
  const torch::Tensor taken = numbers.to(torch::kBFloat16).to(torch::kFloat32);
  sum.index_put_({chosen}, numbers - taken);
  return taken;
}

template <typename Model>
struct SparseTraining {
  SparseTraining(Communicator& communicator, const AllReduceOptions& options,
                 torch::optim::SGDOptions how)
      : communicator(communicator),
        optimizer(model.parameters(), how),
        replica(make_all_reduce_replica(communicator, model, optimizer, options)) {}

  void step(int number, float factor = 1) {
    optimizer.zero_grad();
    (factor * model.loss(number, communicator.rank())).backward();
    replica->step();
  }

  // What is kept, as deep copies.
  ReplicaState saved() const {
    ReplicaState saved = replica->state();
    for (auto* tensors : {&saved.common, &saved.own, &saved.parts})
      for (auto& tensor : *tensors) tensor.tensor = tensor.tensor.clone();
    return saved;
  }
  // The mean over ranks of one of the tensors that are kept.
  torch::Tensor mean_kept(std::size_t which = 0) const {
    torch::Tensor kept = replica->state().parts.at(which).tensor.clone();
    communicator.all_reduce(asup::buffer_of(kept), ReduceOp::average).or_throw();
    return kept;
  }

  Communicator& communicator;
  Model model;
  torch::optim::SGD optimizer;
  std::unique_ptr<Replica> replica;
};

}  // namespace asup::testing
