// ASU-P's rule, momentum over gradients scaled by their own recent size: kernels/update/asup.h has
// its equations.
//
//   asup::optim::AsupMomentum optimizer(model->parameters(), asup::optim::AsupOptions(0.001));
//
// Used from one thread.
#pragma once

#include "asup/optim/rule_optimizer.h"

namespace asup::optim {

struct AsupOptions : public RuleOptions {
  AsupOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, alpha) = 0.99;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  kernels::Rule rule() const override;
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr_; }
  void set_lr(const double lr) override { lr_ = lr; }
};

class AsupMomentum : public RuleOptimizer {
 public:
  AsupMomentum(const std::vector<torch::optim::OptimizerParamGroup>& groups,
               const AsupOptions& defaults)
      : RuleOptimizer(groups, std::make_unique<AsupOptions>(defaults)) {}
  AsupMomentum(std::vector<torch::Tensor> parameters, const AsupOptions& defaults)
      : AsupMomentum({torch::optim::OptimizerParamGroup(std::move(parameters))}, defaults) {}

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;
};

}  // namespace asup::optim
