#include "asup/sync/server/rules_of.h"

#include <algorithm>
#include <map>
#include <typeinfo>

#include "asup/base/error.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"

namespace asup::sync {
namespace {

using kernels::Rule;

Rule rule_of(const torch::optim::SGDOptions& options) {
  Rule rule{.weight_decay = options.weight_decay()};
  if (options.momentum() == 0) return rule;  // nesterov and dampening are nothing then
  rule.kind = options.nesterov() ? Rule::Kind::nesterov : Rule::Kind::momentum;
  rule.momentum = options.momentum();
  rule.dampening = options.dampening();
  return rule;
}

Rule rule_of(const torch::optim::RMSpropOptions& options) {
  return {.kind = Rule::Kind::rmsprop,
          .momentum = options.momentum(),
          .weight_decay = options.weight_decay(),
          .alpha = options.alpha(),
          .eps = options.eps(),
          .centered = options.centered()};
}

// Of Adam or AdamW.
template <typename Options>
Rule adam_rule(Rule::Kind kind, const Options& options) {
  return {.kind = kind,
          .weight_decay = options.weight_decay(),
          .eps = options.eps(),
          .beta1 = std::get<0>(options.betas()),
          .beta2 = std::get<1>(options.betas()),
          .amsgrad = options.amsgrad()};
}

Rule rule_of(const torch::optim::AdamOptions& options) {
  return adam_rule(Rule::Kind::adam, options);
}

Rule rule_of(const torch::optim::AdamWOptions& options) {
  return adam_rule(Rule::Kind::adamw, options);
}

Rule rule_of(const optim::RuleOptions& options) { return options.rule(); }

bool is_vector(const torch::Tensor& parameter) { return parameter.dim() <= 1; }

// Whether tensors of one dimension have rules of their own, after those of all groups: also where
// there are none, which another part of the model may have.
bool has_rules_of_vectors(const torch::optim::Optimizer& optimizer) {
  return typeid(optimizer) == typeid(optim::Lars) || typeid(optimizer) == typeid(optim::Lamb);
}

// Each group's rule, if the optimizer is exactly of this type.
template <typename Optimizer, typename Options>
bool take_rules(const torch::optim::Optimizer& optimizer, std::vector<Rule>& rules) {
  if (typeid(optimizer) != typeid(Optimizer)) return false;
  for (const auto& group : optimizer.param_groups())
    rules.push_back(rule_of(dynamic_cast<const Options&>(group.options())));
  return true;
}

}  // namespace

std::vector<Rule> rules_as_set(const torch::optim::Optimizer& optimizer) {
  std::vector<Rule> rules;
  const bool known =
      take_rules<torch::optim::SGD, torch::optim::SGDOptions>(optimizer, rules) ||
      take_rules<torch::optim::RMSprop, torch::optim::RMSpropOptions>(optimizer, rules) ||
      take_rules<torch::optim::Adam, torch::optim::AdamOptions>(optimizer, rules) ||
      take_rules<torch::optim::AdamW, torch::optim::AdamWOptions>(optimizer, rules) ||
      take_rules<optim::Lars, optim::LarsOptions>(optimizer, rules) ||
      take_rules<optim::Lamb, optim::LambOptions>(optimizer, rules) ||
      take_rules<optim::AsupMomentum, optim::AsupOptions>(optimizer, rules);
  if (!known)
    throw BadInput(fmt::format(
        "parameter servers have no update rule for {}: use SGD, RMSprop, Adam or AdamW of "
        "torch::optim, or Lars, Lamb or AsupMomentum of asup::optim; or train by all-reduce (sync "
        "= "
        "allreduce), which runs any optimizer",
        c10::demangle(typeid(optimizer).name())));
  if (has_rules_of_vectors(optimizer))
    for (std::size_t group = 0, groups = rules.size(); group < groups; ++group)
      rules.push_back(kernels::rule_of_vectors(rules[group]));
  return rules;
}

std::vector<Rule> rules_of(const torch::optim::Optimizer& optimizer) {
  std::vector<Rule> rules = rules_as_set(optimizer);
  require(!rules.empty(), "the optimizer has no parameters: there is nothing to train");
  for (const Rule& rule : rules) kernels::require_valid(rule);
  return rules;
}

std::vector<double> learning_rates_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (int of_vectors = 0; of_vectors <= (has_rules_of_vectors(optimizer) ? 1 : 0); ++of_vectors)
    for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

std::vector<std::uint32_t> groups_of(const torch::optim::Optimizer& optimizer,
                                     const std::vector<NamedTensor>& parameters) {
  std::map<const void*, std::uint32_t> by_tensor;
  std::uint32_t group = 0;
  for (const auto& parameter_group : optimizer.param_groups()) {
    for (const torch::Tensor& tensor : parameter_group.params())
      by_tensor.emplace(tensor.unsafeGetTensorImpl(), group);
    ++group;
  }
  std::vector<std::uint32_t> groups;
  const bool has_vectors = has_rules_of_vectors(optimizer);
  for (const auto& [name, tensor] : parameters)
    groups.push_back(by_tensor.at(tensor.unsafeGetTensorImpl()) +
                     (has_vectors && is_vector(tensor) ? group : 0));
  return groups;
}

}  // namespace asup::sync
