// LARS, for large batches: kernels/update/lars.h has its equations. A learning rate of 1 moves each
// tensor by `trust` of its norm in a step, before momentum.
//
//   asup::optim::Lars optimizer(model->parameters(), asup::optim::LarsOptions(1.0).momentum(0.9));
//
// Used from one thread.
#pragma once

#include "asup/optim/rule_optimizer.h"

namespace asup::optim {

struct LarsOptions : public RuleOptions {
  LarsOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, trust) = 0.001;

 public:
  kernels::Rule rule() const override;
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr_; }
  void set_lr(const double lr) override { lr_ = lr; }
};

class Lars : public RuleOptimizer {
 public:
  Lars(const std::vector<torch::optim::OptimizerParamGroup>& groups, const LarsOptions& defaults)
      : RuleOptimizer(groups, std::make_unique<LarsOptions>(defaults)) {}
  Lars(std::vector<torch::Tensor> parameters, const LarsOptions& defaults)
      : Lars({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace asup::optim
