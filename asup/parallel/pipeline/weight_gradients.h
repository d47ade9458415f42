// Gradients of weights that are computed later than those of inputs: what a stage before waits for
// comes first (Qi et al., "Zero bubble pipeline parallelism", ICLR 2024,
// https://arxiv.org/abs/2401.10241).
//
// Layers that can (layers.h) leave here what is to be done, while a scope below lives in their
// forward; others compute both at once, in backward.
//
// Forward and run() are called by one thread, add() by autograd's, one at a time.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <set>
#include <vector>

namespace asup::parallel {

class WeightGradients : public torch::CustomClassHolder {
 public:
  // `work` adds to the gradients of these weights. Nothing of it refers to a graph.
  void add(const std::vector<torch::Tensor>& weights, std::function<void()> work);
  // Those of a linear layer, by what went in and the gradient of what came out: of its weight,
  // which is outputs x inputs or, `by_inputs`, the other way round, and of its bias, which may be
  // undefined.
  void add_linear(const torch::Tensor& input, const torch::Tensor& gradient,
                  const torch::Tensor& weight, const torch::Tensor& bias, bool by_inputs);
  // All that was left, in its order; then there is nothing.
  void run();

  bool empty() const { return works_.empty(); }
  // Whether a work for this weight was left since the begin.
  bool knows(const torch::Tensor& weight) const {
    return weights_.contains(weight.unsafeGetTensorImpl());
  }

 private:
  std::vector<std::function<void()>> works_;
  std::set<const void*> weights_;
};

using WeightGradientsPtr = c10::intrusive_ptr<WeightGradients>;

// Of a micro-batch that goes forward on this thread now, for a layer with this weight; null: it
// computes its gradients in backward.
WeightGradientsPtr weight_gradients_for(const torch::Tensor& weight);

// From an autograd node's forward to its backward; null stays null.
void keep(torch::autograd::AutogradContext& context, const WeightGradientsPtr& gradients);
WeightGradientsPtr kept_weight_gradients(torch::autograd::AutogradContext& context);

bool learns(const torch::Tensor& weight);  // there is one, and it does
void add_to_gradient(const torch::Tensor& weight, const torch::Tensor& gradient);

class DeferWeightGradients {
 public:
  // Null: for a while they are not.
  explicit DeferWeightGradients(WeightGradientsPtr gradients);
  ~DeferWeightGradients();
  DeferWeightGradients(const DeferWeightGradients&) = delete;
  DeferWeightGradients& operator=(const DeferWeightGradients&) = delete;

 private:
  WeightGradientsPtr before_;
};

}  // namespace asup::parallel
