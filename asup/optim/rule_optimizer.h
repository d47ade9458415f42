// An optimizer, as torch has them, whose step is an update rule of kernels: the same code that
// parameter servers run. For rules that torch lacks. Used from one thread; the work of a large
// parameter is spread over torch's threads, with the same bits for any number of them. Parameters
// on a GPU are updated there, by torch's operations (torch_rules.h).
//
// Parameters must be dense f32 on the CPU or a GPU; step() throws BadInput that says so for others.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "asup/kernels/rule.h"

namespace asup::optim {

class RuleOptions : public torch::optim::OptimizerOptions {
 public:
  virtual kernels::Rule rule() const = 0;
};

struct RuleState : public torch::optim::OptimizerCloneableParamState<RuleState> {
  std::int64_t step = 0;             // updates done
  std::vector<torch::Tensor> slots;  // state_slots(rule), each of the parameter's shape

  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

class RuleOptimizer : public torch::optim::Optimizer {
 public:
  torch::Tensor step(LossClosure closure = nullptr) override;

  // Throws BadInput for options of another optimizer or out of range. In the place of torch's,
  // which gives groups whose options are of a type that it does not know the defaults.
  void add_param_group(const torch::optim::OptimizerParamGroup& group);

 protected:
  RuleOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                std::unique_ptr<RuleOptions> defaults);

 private:
  void update(const kernels::Rule& rule, double lr, torch::Tensor& parameter);
  void update_on_cpu(const kernels::Rule& rule, double lr, torch::Tensor& parameter,
                     RuleState& state);
  RuleState& state_of(const kernels::Rule& rule, const torch::Tensor& parameter);
};

}  // namespace asup::optim
