#include "asup/sync/gradients/clip.h"

#include <cmath>

#include "asup/base/error.h"
#include "asup/sync/model/chunked_norm.h"

namespace asup::sync {
namespace {

torch::Tensor sum_by_torch(const torch::Tensor& gradient) {
  return gradient.to(torch::kDouble).square().sum();
}

torch::Tensor without_gaps(const torch::Tensor& gradient) {
  return gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous();
}

}  // namespace

double gradient_norm(const std::vector<NamedTensor>& parameters) {
  torch::NoGradGuard no_grad;
  ChunkSums on_host(parameters);
  std::vector<torch::Tensor> on_device;  // sums, which are fetched at once
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& gradient = parameters[i].tensor.grad();
    if (!gradient.defined()) continue;
    if (gradient.is_cpu())
      on_host.add(i, 0, without_gaps(gradient));
    else
      on_device.push_back(sum_by_torch(gradient));
  }
  double sum = on_host.sum();
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
