#include "asup/optim/torch_rules.h"

#include <cmath>

#include "asup/base/error.h"

namespace asup::optim {
namespace {

// kernels::trust_ratio(), where the norms are.
torch::Tensor lars_ratio(const kernels::Rule& rule, const torch::Tensor& parameter,
                         const torch::Tensor& gradient) {
  if (!kernels::needs_whole_tensors(rule))
    return torch::ones({}, parameter.options().dtype(torch::kFloat64));
  const torch::Tensor w = parameter.norm(2, torch::kFloat64), g = gradient.norm(2, torch::kFloat64);
  return torch::where((w == 0).logical_or(g == 0), torch::ones_like(w),
                      rule.trust * w / (g + rule.weight_decay * w));
}

torch::Tensor with_decay(const kernels::Rule& rule, const torch::Tensor& parameter,
                         const torch::Tensor& gradient) {
  return rule.weight_decay == 0 ? gradient : gradient.add(parameter, rule.weight_decay);
}

void lamb_update(const kernels::Rule& rule, double lr, std::int64_t updates,
                 const torch::Tensor& parameter, const torch::Tensor& gradient,
                 std::vector<torch::Tensor>& slots) {
  torch::Tensor &m = slots.at(0), &s = slots.at(1);
  const auto missing = [&](double beta) {
    return 1 - std::pow(beta, static_cast<double>(updates));
  };
  m.mul_(rule.beta1).add_(gradient, 1 - rule.beta1);
  s.mul_(rule.beta2).addcmul_(gradient, gradient, 1 - rule.beta2);
  const torch::Tensor divided_by = (s / missing(rule.beta2)).sqrt_().add_(rule.eps);
  const torch::Tensor r =
      (m / missing(rule.beta1)).div_(divided_by).add_(parameter, rule.weight_decay);
  if (!kernels::needs_whole_tensors(rule)) return void(parameter.sub_(r, lr));
  const torch::Tensor w = parameter.norm(2, torch::kFloat64), n = r.norm(2, torch::kFloat64);
  const torch::Tensor ratio =
      torch::where((w == 0).logical_or(n == 0), torch::ones_like(w), rule.trust * w / n);
  parameter.sub_(r * (lr * ratio).to(torch::kFloat32));
}

}  // namespace

void update_by_torch(const kernels::Rule& rule, double lr, std::int64_t updates,
                     const torch::Tensor& parameter, const torch::Tensor& gradient,
                     std::vector<torch::Tensor>& slots) {
  if (rule.kind == kernels::Rule::Kind::lamb)
    return lamb_update(rule, lr, updates, parameter, gradient, slots);
  const torch::Tensor g = with_decay(rule, parameter, gradient);
  torch::Tensor& v = slots.at(0);
  if (rule.kind == kernels::Rule::Kind::lars) {
    const torch::Tensor rate = (lr * lars_ratio(rule, parameter, gradient)).to(torch::kFloat32);
    v.mul_(rule.momentum).addcmul_(g, rate);
  } else {
    check(rule.kind == kernels::Rule::Kind::asup, "torch has the rule {} itself",
          name_of(rule.kind));
    torch::Tensor& s = slots.at(1);
    s.mul_(rule.alpha).addcmul_(g, g, 1 - rule.alpha);
    const double scale = 1 / (1 - std::pow(rule.alpha, static_cast<double>(updates)));
    v.mul_(rule.momentum).addcdiv_(g, (s * scale + rule.eps).sqrt_(), lr);
  }
  parameter.sub_(v);
}

}  // namespace asup::optim
