#include "asup/sync/gradients/clip.h"

#include <cmath>

#include "asup/base/error.h"
#include "asup/kernels/update.h"

namespace asup::sync {
namespace {

torch::Tensor sum_by_torch(const torch::Tensor& gradient) {
  return gradient.to(torch::kDouble).square().sum();
}

double sum_of_squares(const torch::Tensor& gradient) {
  if (gradient.scalar_type() != torch::kFloat || !gradient.is_non_overlapping_and_dense())
    return sum_by_torch(gradient).item<double>();
  return kernels::sum_of_squares(gradient.const_data_ptr<float>(),
                                 static_cast<std::size_t>(gradient.numel()));
}

}  // namespace

double gradient_norm(const std::vector<NamedTensor>& parameters) {
  torch::NoGradGuard no_grad;
  double sum = 0;
  std::vector<torch::Tensor> on_device;  // sums, which are fetched at once
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.grad().defined()) continue;
    if (tensor.grad().is_cpu())
      sum += sum_of_squares(tensor.grad());
    else
      on_device.push_back(sum_by_torch(tensor.grad()));
  }
  if (!on_device.empty()) sum += torch::stack(on_device).sum().item<double>();
  return std::sqrt(sum);
}

double clip_factor(double norm, double most) {
  require(most > 0, "clip_grad_norm({}): gradients can be clipped to a norm above 0 only", most);
  return std::isfinite(norm) && norm > most ? most / norm : 1;
}

void scale_gradients(const std::vector<NamedTensor>& parameters, double factor) {
  if (factor == 1) return;
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : parameters)
    if (tensor.grad().defined()) tensor.grad().mul_(factor);
}

double clip_gradients(const std::vector<NamedTensor>& parameters, double most) {
  const double norm = gradient_norm(parameters);
  scale_gradients(parameters, clip_factor(norm, most));
  return norm;
}

}  // namespace asup::sync
