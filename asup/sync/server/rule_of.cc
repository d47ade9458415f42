#include "asup/sync/server/rule_of.h"

#include <typeinfo>

#include "asup/base/error.h"
#include "asup/optim/asup_momentum.h"
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

// All groups' rule, if the optimizer is exactly of this type.
template <typename Optimizer, typename Options>
bool take_rule(const torch::optim::Optimizer& optimizer, Rule& rule) {
  if (typeid(optimizer) != typeid(Optimizer)) return false;
  const auto& groups = optimizer.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Rule found = rule_of(dynamic_cast<const Options&>(groups[i].options()));
    if (i == 0) rule = found;
    require(
        found == rule,
        "parameter servers apply one update rule to all parameters; the optimizer's group 0 has "
        "{}, and group {} has {}. Give all groups the same options, or train by all-reduce "
        "(sync = allreduce)",
        describe(rule), i, describe(found));
  }
  return true;
}

}  // namespace

Rule rule_of(const torch::optim::Optimizer& optimizer) {
  Rule rule;
  const bool known =
      take_rule<torch::optim::SGD, torch::optim::SGDOptions>(optimizer, rule) ||
      take_rule<torch::optim::RMSprop, torch::optim::RMSpropOptions>(optimizer, rule) ||
      take_rule<torch::optim::Adam, torch::optim::AdamOptions>(optimizer, rule) ||
      take_rule<torch::optim::AdamW, torch::optim::AdamWOptions>(optimizer, rule) ||
      take_rule<optim::Lars, optim::LarsOptions>(optimizer, rule) ||
      take_rule<optim::AsupMomentum, optim::AsupOptions>(optimizer, rule);
  require(known,
          "parameter servers have no update rule for {}: use SGD, RMSprop, Adam or AdamW of "
          "torch::optim, or Lars or AsupMomentum of asup::optim; or train by all-reduce (sync = "
          "allreduce), which runs any optimizer",
          c10::demangle(typeid(optimizer).name()));
  kernels::require_valid(rule);
  return rule;
}

double learning_rate_of(const torch::optim::Optimizer& optimizer) {
  const auto& groups = optimizer.param_groups();
  require(!groups.empty(), "the optimizer has no parameters: there is nothing to train");
  const double lr = groups[0].options().get_lr();
  for (std::size_t i = 1; i < groups.size(); ++i)
    require(groups[i].options().get_lr() == lr,
            "parameter servers use one learning rate for all parameters; the optimizer's group 0 "
            "has {}, and group {} has {}. Give all groups the same, or train by all-reduce (sync = "
            "allreduce)",
            lr, i, groups[i].options().get_lr());
  return lr;
}

}  // namespace asup::sync
