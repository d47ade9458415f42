#include "asup/optim/torch_rules.h"

#include <cmath>

#include "asup/base/error.h"

namespace asup::optim {
namespace {

// kernels::lars_ratio(), where the norms are.
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

}  // namespace

void update_by_torch(const kernels::Rule& rule, double lr, std::int64_t updates,
                     const torch::Tensor& parameter, const torch::Tensor& gradient,
                     std::vector<torch::Tensor>& slots) {
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
