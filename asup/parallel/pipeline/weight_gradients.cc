#include "asup/parallel/pipeline/weight_gradients.h"

#include <utility>

namespace asup::parallel {
namespace {

WeightGradientsPtr& current() {
  thread_local WeightGradientsPtr gradients;
  return gradients;
}

}  // namespace

void WeightGradients::add(const std::vector<torch::Tensor>& weights, std::function<void()> work) {
  for (const torch::Tensor& weight : weights) weights_.insert(weight.unsafeGetTensorImpl());
  works_.push_back(std::move(work));
}

void WeightGradients::run() {
  const torch::NoGradGuard no_grad;
  for (auto& work : works_) {
    work();
    work = nullptr;  // what it holds goes at once
  }
  works_.clear();
}

const WeightGradientsPtr& deferred_weight_gradients() { return current(); }

DeferWeightGradients::DeferWeightGradients(WeightGradientsPtr gradients)
    : before_(std::exchange(current(), std::move(gradients))) {}

DeferWeightGradients::~DeferWeightGradients() { current() = std::move(before_); }

}  // namespace asup::parallel
