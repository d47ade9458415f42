#include "asup/sync/rule_of.h"

#include "asup/base/error.h"

namespace asup::sync {

using kernels::Rule;

kernels::Rule rule_of(const torch::optim::Optimizer& optimizer) {
  Rule rule;
  const auto& options = optimizer.param_groups().front().options();
  require(optimizer.param_groups().size() == 1,
          "an optimizer with several groups of parameters cannot be trained through a server: give "
          "it one");
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options)) {
    rule.kind = sgd->momentum() == 0 ? Rule::Kind::sgd
                : sgd->nesterov()    ? Rule::Kind::nesterov
                                     : Rule::Kind::momentum;
    rule.momentum = sgd->momentum();
    rule.dampening = sgd->momentum() == 0 ? 0 : sgd->dampening();
    rule.weight_decay = sgd->weight_decay();
    return rule;
  }
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options)) {
    rule.kind = Rule::Kind::adam;
    std::tie(rule.beta1, rule.beta2) = adam->betas();
    rule.eps = adam->eps();
    rule.amsgrad = adam->amsgrad();
    rule.weight_decay = adam->weight_decay();
    return rule;
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options)) {
    rule.kind = Rule::Kind::adamw;
    std::tie(rule.beta1, rule.beta2) = adamw->betas();
    rule.eps = adamw->eps();
    rule.amsgrad = adamw->amsgrad();
    rule.weight_decay = adamw->weight_decay();
    return rule;
  }
  if (const auto* rmsprop = dynamic_cast<const torch::optim::RMSpropOptions*>(&options)) {
    rule.kind = Rule::Kind::rmsprop;
    rule.alpha = rmsprop->alpha();
    rule.eps = rmsprop->eps();
    rule.momentum = rmsprop->momentum();
    rule.centered = rmsprop->centered();
    rule.weight_decay = rmsprop->weight_decay();
    return rule;
  }
  throw BadInput("this optimizer has no update rule that servers know");
}

}  // namespace asup::sync
