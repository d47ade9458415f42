// LAMB, for large batches: kernels/update/lamb.h has its equations. A learning rate of 0.01 moves
// each tensor by a hundredth of its norm in a step.
//
//   asup::optim::Lamb optimizer(model->parameters(), asup::optim::LambOptions(0.01));
//
// Used from one thread.
#pragma once

#include <tuple>

#include "asup/optim/rule_optimizer.h"

namespace asup::optim {

struct LambOptions : public RuleOptions {
  LambOptions(double lr = 0.001) : lr_(lr) {}
  typedef std::tuple<double, double> betas_t;
  TORCH_ARG(double, lr);
  TORCH_ARG(betas_t, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  kernels::Rule rule() const override;
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr_; }
  void set_lr(const double lr) override { lr_ = lr; }
};

class Lamb : public RuleOptimizer {
 public:
  Lamb(const std::vector<torch::optim::OptimizerParamGroup>& groups, const LambOptions& defaults)
      : RuleOptimizer(groups, std::make_unique<LambOptions>(defaults)) {}
  Lamb(std::vector<torch::Tensor> parameters, const LambOptions& defaults)
      : Lamb({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace asup::optim
