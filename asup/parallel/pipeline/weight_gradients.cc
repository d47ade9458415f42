#include "asup/parallel/pipeline/weight_gradients.h"

#include <ATen/autocast_mode.h>

#include <utility>

namespace asup::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;

constexpr const char* kKept = "weight gradients";

WeightGradientsPtr& current() {
  thread_local WeightGradientsPtr gradients;
  return gradients;
}

Tensor rows_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Straight into the sum, where there is one.
void add_product(const Tensor& weight, const Tensor& a, const Tensor& b) {
  Tensor& sum = weight.mutable_grad();
  if (sum.defined())
    sum.addmm_(a, b);
  else
    sum = a.mm(b);
}

}  // namespace

bool learns(const Tensor& weight) { return weight.defined() && weight.requires_grad(); }

void add_to_gradient(const Tensor& weight, const Tensor& gradient) {
  Tensor& sum = weight.mutable_grad();
  if (sum.defined())
    sum.add_(gradient);
  else
    sum = gradient;
}

void WeightGradients::add(const std::vector<Tensor>& weights, std::function<void()> work) {
  for (const Tensor& weight : weights) weights_.insert(weight.unsafeGetTensorImpl());
  works_.push_back(std::move(work));
}

void WeightGradients::add_linear(const Tensor& input, const Tensor& gradient, const Tensor& weight,
                                 const Tensor& bias, bool by_inputs) {
  if (!learns(weight) && !learns(bias)) return;
  add({weight, bias},
      [input = input.detach(), gradient = gradient.detach(), weight, bias, by_inputs] {
        const Tensor x = rows_of(input), g = rows_of(gradient);
        if (learns(weight))
          by_inputs ? add_product(weight, x.t(), g) : add_product(weight, g.t(), x);
        if (learns(bias)) add_to_gradient(bias, g.sum(0));
      });
}

void WeightGradients::run() {
  const torch::NoGradGuard no_grad;
  for (auto& work : works_) {
    work();
    work = nullptr;  // what it holds goes at once
  }
  works_.clear();
}

// Autocast computes by copies of the weights.
WeightGradientsPtr weight_gradients_for(const Tensor& weight) {
  const bool waits =
      torch::GradMode::is_enabled() && !at::autocast::is_autocast_enabled(weight.device().type());
  return waits ? current() : WeightGradientsPtr();
}

void keep(AutogradContext& context, const WeightGradientsPtr& gradients) {
  if (gradients) context.saved_data[kKept] = c10::IValue::make_capsule(gradients);
}

WeightGradientsPtr kept_weight_gradients(AutogradContext& context) {
  const auto found = context.saved_data.find(kKept);
  if (found == context.saved_data.end()) return {};
  return c10::static_intrusive_pointer_cast<WeightGradients>(found->second.toCapsule());
}

DeferWeightGradients::DeferWeightGradients(WeightGradientsPtr gradients)
    : before_(std::exchange(current(), std::move(gradients))) {}

DeferWeightGradients::~DeferWeightGradients() { current() = std::move(before_); }

}  // namespace asup::parallel
