#include "asup/sync/sharded/parameters_on_demand.h"

#include <algorithm>
#include <limits>

#include "asup/base/error.h"
#include "asup/base/quietly.h"

namespace asup::sync {

ParametersOnDemand::ParametersOnDemand(ShardedParameters& parameters,
                                       std::vector<std::size_t> groups)
    : parameters_(parameters), group_of_(std::move(groups)) {
  groups_.resize(group_of_.back() + 1);
  for (std::size_t i = 0; i < group_of_.size(); ++i) {
    const torch::Tensor& tensor = parameters_.parameters()[i].tensor;
    groups_[group_of_[i]].parameters.push_back(i);
    parameter_of_.emplace(tensor.unsafeGetTensorImpl(), i);
    const auto nothing = torch::full({}, std::numeric_limits<double>::quiet_NaN(),
                                     tensor.options().requires_grad(false));
    hidden_.push_back(nothing.expand(tensor.sizes()));
  }
  for (std::size_t b = 0; b < parameters_.buckets().size(); ++b)
    groups_[group_of_[parameters_.buckets()[b].layout.tensors.front().index]].buckets.push_back(b);
  for (Group& group : groups_) group.here = true;
  let_go();
  watch_.emplace(static_cast<OperandWatch::Listener&>(*this));
}

ParametersOnDemand::~ParametersOnDemand() {
  watch_.reset();
  if (all_here_) return;
  quietly([this] {
    const torch::NoGradGuard no_grad;
    let_go();
    for (std::size_t i = 0; i < hidden_.size(); ++i)
      lay(i, torch::full_like(parameters_.place(i), std::numeric_limits<double>::quiet_NaN()));
  });
}

// Address first: most operands are no parameters. A parameter that is not here has another.
std::optional<std::size_t> ParametersOnDemand::group_of(const torch::Tensor& tensor) const {
  if (!tensor.defined() || !tensor.has_storage()) return std::nullopt;
  if (const auto parameter = parameters_.parameter_at(tensor.storage().data()))
    return group_of_[*parameter];
  const auto found = parameter_of_.find(tensor.unsafeGetTensorImpl());
  if (found == parameter_of_.end()) return std::nullopt;
  return group_of_[found->second];
}

// After a failure, parameters stay NaN, and those who meet the replica next are told.
void ParametersOnDemand::before(OperandWatch::Operands operands, bool nested) noexcept {
  if (all_here_ || as_they_lie_ > 0 || !failure_.ok()) return;
  try {
    Indices needed;
    for_each_tensor(operands, [&](const torch::Tensor& tensor) {
      if (const auto group = group_of(tensor)) needed.insert(*group);
    });
    if (needed.empty()) return;
    if (!nested) return use(needed);
    for (const std::size_t group : needed) wait_for(groups_[group]);
  } catch (const std::exception& error) {
    if (failure_.ok()) failure_ = Outcome(Outcome::Kind::broken, error.what());
  }
}

// What was there before goes when what is needed has come, and what is likely to follow leaves, or
// stays: where forward turns to backward.
void ParametersOnDemand::use(const Indices& groups) {
  for (const std::size_t group : groups) note_use(group);
  for (const std::size_t group : groups) wait_for(groups_[group]);
  const auto next = likely_next();
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (i != next && !groups.contains(i)) give_up(groups_[i]);
  if (next) start(groups_[*next]);
}

void ParametersOnDemand::note_use(std::size_t group) {
  if (group == last_) return;
  followed_[{before_last_, last_}] = group;
  before_last_ = std::exchange(last_, group);
}

std::optional<std::size_t> ParametersOnDemand::likely_next() const {
  const auto found = followed_.find({before_last_, last_});
  return found == followed_.end() ? std::nullopt : std::optional(found->second);
}

void ParametersOnDemand::start(Group& group) {
  if (group.here || !group.coming.empty()) return;
  for (const std::size_t bucket : group.buckets)
    group.coming.push_back(parameters_.start_gather(bucket));
}

void ParametersOnDemand::wait_for(Group& group) {
  if (group.here) return;
  const auto since = Clock::now();
  start(group);
  const Outcome outcome = wait_for_all(group.coming);
  wait_seconds_ += seconds_since(since);
  group.coming.clear();
  if (!outcome.ok() && failure_.ok()) failure_ = outcome;
  if (!outcome.ok()) return;
  group.here = true;
  for (const std::size_t parameter : group.parameters) show(parameter);
}

// What has left is waited for: it writes to the memory that is given back.
void ParametersOnDemand::give_up(Group& group) {
  if (!group.here && group.coming.empty()) return;
  (void)wait_for_all(group.coming);
  group.coming.clear();
  group.here = false;
  for (const std::size_t parameter : group.parameters) hide(parameter);
  for (const std::size_t bucket : group.buckets) parameters_.forget_others(bucket);
}

void ParametersOnDemand::gather_all() {
  check_gathered();
  for (Group& group : groups_) start(group);
  for (Group& group : groups_) wait_for(group);
  check_gathered();
  all_here_ = true;
}

void ParametersOnDemand::let_go() {
  all_here_ = false;
  last_ = before_last_ = kNone;
  for (Group& group : groups_) give_up(group);
}

// As set_data() does it, which asks an operator first whether it may.
void ParametersOnDemand::lay(std::size_t parameter, const torch::Tensor& data) const {
  parameters_.parameters()[parameter].tensor.unsafeGetTensorImpl()->shallow_copy_from(
      data.getIntrusivePtr());
}

void ParametersOnDemand::show(std::size_t parameter) const {
  lay(parameter, parameters_.place(parameter));
}

void ParametersOnDemand::hide(std::size_t parameter) const { lay(parameter, hidden_[parameter]); }

ParametersOnDemand::AsTheyLie::AsTheyLie(ParametersOnDemand* parameters) : parameters_(parameters) {
  if (!parameters_ || parameters_->as_they_lie_++ > 0) return;
  for (const Group& group : parameters_->groups_)
    for (const std::size_t parameter : group.parameters)
      if (!group.here) parameters_->show(parameter);
}

ParametersOnDemand::AsTheyLie::~AsTheyLie() {
  if (!parameters_ || --parameters_->as_they_lie_ > 0) return;
  for (const Group& group : parameters_->groups_)
    for (const std::size_t parameter : group.parameters)
      if (!group.here) parameters_->hide(parameter);
}

}  // namespace asup::sync
