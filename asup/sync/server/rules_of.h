// What parameter servers do in place of an optimizer's step: for each of its groups of parameters
// the update rule that equals it, and the learning rate that is in force.
// Safe from any thread as far as the optimizer is.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "asup/kernels/rule.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

// Of each group; with Lars and Lamb, if there are tensors of one dimension, then of each group's
// such tensors (kernels::rule_of_vectors()). Throws BadInput that names the optimizer's type or the
// option, and says what is possible, where there is no such rule: for types other than torch's SGD,
// RMSprop, Adam and AdamW and asup's Lars, Lamb and AsupMomentum (types derived from these
// included: their step may be another).
std::vector<kernels::Rule> rules_of(const torch::optim::Optimizer& optimizer);
// The same, of an optimizer that has had rules: its options may be wrong by now.
std::vector<kernels::Rule> rules_as_set(const torch::optim::Optimizer& optimizer);

// Of each of those groups.
std::vector<double> learning_rates_of(const torch::optim::Optimizer& optimizer);

// The group, among those, of each of these parameters. needs: the optimizer has them
std::vector<std::uint32_t> groups_of(const torch::optim::Optimizer& optimizer,
                                     const std::vector<NamedTensor>& parameters);

}  // namespace asup::sync
