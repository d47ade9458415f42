// Linear layers of which each rank of a group has a part (Megatron-LM, section 3).
//
// A column-parallel layer has a part of the outputs, a row-parallel one a part of the inputs:
// behind each other, with anything element-wise between them, they need one all-reduce forward and
// one backward. The one backward travels while the gradient of the weight is computed.
//
// First weights are those of torch::nn::Linear with the same seed, of which each rank keeps its
// part: the whole is there for a moment, a layer at a time. On each rank used from the thread that
// runs forward; collective.
#pragma once

#include <torch/torch.h>

#include <functional>

#include "asup/parallel/tensor/tensor_group.h"
#include "asup/parallel/tensor_cut.h"

namespace asup::parallel {

// Fills the whole weight and, where there is one, the whole bias.
using FirstWeights = std::function<void(torch::Tensor weight, torch::Tensor bias)>;

struct ColumnParallelLinearOptions {
  ColumnParallelLinearOptions(std::int64_t in_features, std::int64_t out_features,
                              TensorGroup group)
      : in_features_(in_features), out_features_(out_features), group_(std::move(group)) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);  // on all ranks together
  TORCH_ARG(TensorGroup, group);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(bool, gather_output) = false;       // all outputs on each rank; else its part of them
  TORCH_ARG(std::int64_t, blocks) = 1;          // of the outputs, each cut by itself (cut.h)
  TORCH_ARG(bool, transposed) = false;          // the weight is inputs × outputs
  TORCH_ARG(FirstWeights, first_weights) = {};  // none: torch::nn::Linear's
};

struct RowParallelLinearOptions {
  RowParallelLinearOptions(std::int64_t in_features, std::int64_t out_features, TensorGroup group)
      : in_features_(in_features), out_features_(out_features), group_(std::move(group)) {}

  TORCH_ARG(std::int64_t, in_features);  // on all ranks together
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(TensorGroup, group);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(bool, split_input) = false;  // inputs are whole on each rank; else its part of them
  TORCH_ARG(bool, transposed) = false;   // the weight is inputs × outputs
  TORCH_ARG(FirstWeights, first_weights) = {};
};

// What both have: a weight of which this rank has a part.
class ParallelLinear : public CutModule {
 public:
  // Gives the layer first weights anew. Every rank fills the same.
  virtual void initialise(const FirstWeights& fill) = 0;
};

class ColumnParallelLinearImpl : public torch::nn::Module, public ParallelLinear {
 public:
  ColumnParallelLinearImpl(std::int64_t in_features, std::int64_t out_features, TensorGroup group)
      : ColumnParallelLinearImpl(
            ColumnParallelLinearOptions(in_features, out_features, std::move(group))) {}
  explicit ColumnParallelLinearImpl(ColumnParallelLinearOptions options);

  // … × inputs in, … × this rank's outputs out. Throws JobFailed when a peer was lost or late, as
  // does backward.
  torch::Tensor forward(const torch::Tensor& input);

  void initialise(const FirstWeights& fill) override;
  std::map<std::string, TensorCut> cuts() const override;
  void pretty_print(std::ostream& stream) const override;

  ColumnParallelLinearOptions options;
  torch::Tensor weight, bias;  // this rank's part of both
};
TORCH_MODULE(ColumnParallelLinear);

class RowParallelLinearImpl : public torch::nn::Module, public ParallelLinear {
 public:
  RowParallelLinearImpl(std::int64_t in_features, std::int64_t out_features, TensorGroup group)
      : RowParallelLinearImpl(
            RowParallelLinearOptions(in_features, out_features, std::move(group))) {}
  explicit RowParallelLinearImpl(RowParallelLinearOptions options);

  // … × this rank's inputs in, … × outputs out. Throws JobFailed when a peer was lost or late.
  torch::Tensor forward(const torch::Tensor& input);

  void initialise(const FirstWeights& fill) override;
  std::map<std::string, TensorCut> cuts() const override;
  void pretty_print(std::ostream& stream) const override;

  RowParallelLinearOptions options;
  torch::Tensor weight;  // this rank's part
  torch::Tensor bias;    // whole
};
TORCH_MODULE(RowParallelLinear);

// The computations alone, with a weight of outputs × inputs, or the other way round where
// `transposed`; an undefined bias is none.
torch::Tensor column_parallel_linear(const torch::Tensor& input, const torch::Tensor& weight,
                                     const torch::Tensor& bias, const TensorGroup& group,
                                     bool transposed = false);
torch::Tensor row_parallel_linear(const torch::Tensor& input, const torch::Tensor& weight,
                                  const torch::Tensor& bias, const TensorGroup& group,
                                  bool transposed = false);

}  // namespace asup::parallel
