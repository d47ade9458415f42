#include "asup/sync/model/optimizer_state.h"

#include <algorithm>
#include <array>
#include <typeinfo>

#include "asup/base/error.h"
#include "asup/optim/rule_optimizer.h"
#include "asup/sync/model/buffer_exchange.h"
#include "asup/tensors/optimizer_state_place.h"

namespace asup::sync {

using torch::optim::OptimizerParamState;

// What is to be known of a type of optimizer.
struct OptimizerState::Kind {
  bool (*is)(const torch::optim::Optimizer&);
  std::unique_ptr<OptimizerParamState> (*make)();
  std::unique_ptr<OptimizerParamState> (*make_in_step)();  // that is a StepUnderWay too
  std::array<const char*, kMostTensors> names;             // of the tensors
  // Where the tensors of a parameter are, in the order of the rule's slots; those that it cannot
  // have are left out.
  std::vector<torch::Tensor*> (*tensors)(OptimizerParamState&);
  std::int64_t (*steps)(const OptimizerParamState&);
  void (*set_steps)(OptimizerParamState&, std::int64_t);
};

namespace {

using namespace torch::optim;
using Kind = OptimizerState::Kind;
constexpr std::size_t kMostTensors = OptimizerState::kMostTensors;

// See OptimizerState::Slots.
struct StepUnderWay {
  virtual ~StepUnderWay() = default;
  torch::Tensor gathered;
  double share = 0;
  std::int64_t steps = 0;  // that the optimizer had done by then
};
template <typename State>
struct StateInStep final : State, StepUnderWay {};

std::vector<torch::Tensor*> tensors_of(SGDParamState& state) { return {&state.momentum_buffer()}; }
std::vector<torch::Tensor*> tensors_of(AdagradParamState& state) { return {&state.sum()}; }
std::vector<torch::Tensor*> tensors_of(RMSpropParamState& state) {
  return {&state.square_avg(), &state.grad_avg(), &state.momentum_buffer()};
}
template <typename Adam>
std::vector<torch::Tensor*> tensors_of(Adam& state) {
  return {&state.exp_avg(), &state.exp_avg_sq(), &state.max_exp_avg_sq()};
}
std::vector<torch::Tensor*> tensors_of(asup::optim::RuleState& state) {
  std::vector<torch::Tensor*> tensors;
  for (torch::Tensor& slot : state.slots) tensors.push_back(&slot);
  return tensors;
}

std::int64_t steps_of(const SGDParamState&) { return 0; }  // it does not count
void set_steps_of(SGDParamState&, std::int64_t) {}
std::int64_t steps_of(const asup::optim::RuleState& state) { return state.step; }
void set_steps_of(asup::optim::RuleState& state, std::int64_t steps) { state.step = steps; }
template <typename State>
std::int64_t steps_of(const State& state) {
  return state.step();
}
template <typename State>
void set_steps_of(State& state, std::int64_t steps) {
  state.step(steps);
}

template <typename Optimizer, typename State>
constexpr Kind kind_of(std::array<const char*, kMostTensors> names) {
  return {
      [](const torch::optim::Optimizer& optimizer) {
        return dynamic_cast<const Optimizer*>(&optimizer) != nullptr;
      },
      []() -> std::unique_ptr<OptimizerParamState> { return std::make_unique<State>(); },
      []() -> std::unique_ptr<OptimizerParamState> {
        return std::make_unique<StateInStep<State>>();
      },
      names,
      [](OptimizerParamState& state) { return tensors_of(static_cast<State&>(state)); },
      [](const OptimizerParamState& state) { return steps_of(static_cast<const State&>(state)); },
      [](OptimizerParamState& state, std::int64_t steps) {
        set_steps_of(static_cast<State&>(state), steps);
      }};
}

constexpr std::array<const char*, kMostTensors> kAdamNames{"exp_avg", "exp_avg_sq",
                                                           "max_exp_avg_sq"};
constexpr std::array kKinds{
    kind_of<SGD, SGDParamState>({"momentum_buffer"}),
    kind_of<Adam, AdamParamState>(kAdamNames),
    kind_of<AdamW, AdamWParamState>(kAdamNames),
    kind_of<RMSprop, RMSpropParamState>({"square_avg", "grad_avg", "momentum_buffer"}),
    kind_of<Adagrad, AdagradParamState>({"sum"}),
    kind_of<asup::optim::RuleOptimizer, asup::optim::RuleState>({"slot_0", "slot_1", "slot_2"})};

const Kind* known_kind(const torch::optim::Optimizer& optimizer) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(),
                                  [&](const Kind& kind) { return kind.is(optimizer); });
  return found == kKinds.end() ? nullptr : &*found;
}

const Kind* find_kind(const torch::optim::Optimizer& optimizer) {
  const Kind* found = known_kind(optimizer);
  require(found != nullptr,
          "the state of {} cannot be averaged, since nothing is known of it: let each worker keep "
          "its own (merge-state = keep), or use an optimizer of torch::optim",
          c10::demangle(typeid(optimizer).name()));
  return found;
}

// Which of an optimizer's tensors the slots of its rule are.
std::array<std::size_t, kernels::kMostStateSlots> places_of(const kernels::Rule& rule) {
  const bool no_average = rule.kind == kernels::Rule::Kind::rmsprop && !rule.centered;
  return no_average ? std::array<std::size_t, 3>{0, 2, 1} : std::array<std::size_t, 3>{0, 1, 2};
}

// Null where there is none, or the optimizer has stepped since.
const StepUnderWay* step_under_way(const Kind& kind, const OptimizerParamState& state) {
  const auto* found = dynamic_cast<const StepUnderWay*>(&state);
  return found != nullptr && found->steps == kind.steps(state) ? found : nullptr;
}

// A state in the midst of a step, which has done so many before.
std::unique_ptr<OptimizerParamState> make_in_step(const Kind& kind, const torch::Tensor& gathered,
                                                  double share, std::int64_t steps) {
  auto state = kind.make_in_step();
  auto& under_way = dynamic_cast<StepUnderWay&>(*state);
  under_way.gathered = gathered;
  under_way.share = share;
  under_way.steps = steps;
  return state;
}

// So that a sum of counts tells which is which.
constexpr std::int64_t kPrime = 1'000'003, kModulus = 1LL << 40;

}  // namespace

OptimizerState::OptimizerState(torch::optim::Optimizer& optimizer,
                               std::vector<torch::Tensor> parameters)
    : optimizer_(optimizer), parameters_(std::move(parameters)), kind_(find_kind(optimizer)) {}

bool OptimizerState::knows(const torch::optim::Optimizer& optimizer) {
  return known_kind(optimizer) != nullptr;
}

torch::Tensor OptimizerState::tensor(std::size_t parameter, std::size_t kind) const {
  OptimizerParamState* state = find(parameters_[parameter]);
  if (!state) return {};
  const auto found = kind_->tensors(*state);
  return kind < found.size() ? *found[kind] : torch::Tensor();
}

OptimizerParamState* OptimizerState::find(const torch::Tensor& parameter) const {
  const auto found = optimizer_.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer_.state().end() ? nullptr : found->second.get();
}

OptimizerState::Kinds OptimizerState::tensors(const Counts& counts) const {
  Kinds kinds;
  for (std::size_t k = 0; k < kMostTensors; ++k) {
    std::vector<torch::Tensor> tensors(parameters_.size());
    bool is_there = false;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      is_there = is_there || counts[i * kMostTensors + k] > 0;
      tensors[i] = tensor(i, k);
    }
    if (is_there) kinds.push_back(std::move(tensors));
  }
  return kinds;
}

OptimizerState::Counts OptimizerState::counts() const {
  Counts counts(parameters_.size() * kMostTensors);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    OptimizerParamState* state = find(parameters_[i]);
    if (!state) continue;
    const auto found = kind_->tensors(*state);
    for (std::size_t k = 0; k < found.size(); ++k)
      if (found[k]->defined()) counts[i * kMostTensors + k] = 1 + kind_->steps(*state);
  }
  return counts;
}

OptimizerState::Counts OptimizerState::most_counts(Communicator& communicator) const {
  Counts most = counts();
  communicator.all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  return most;
}

double OptimizerState::fingerprint() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts()) sum = (sum * kPrime + count) % kModulus;
  return static_cast<double>(sum);
}

void OptimizerState::complete(const Counts& most) {
  const MakesOptimizerState state_is_made;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto begin = most.begin() + static_cast<std::ptrdiff_t>(i * kMostTensors);
    const auto end = begin + static_cast<std::ptrdiff_t>(kMostTensors);
    const std::int64_t steps = *std::max_element(begin, end) - 1;
    if (steps < 0) continue;
    auto& state = optimizer_.state()[parameters_[i].unsafeGetTensorImpl()];
    if (!state) state = kind_->make();
    if (auto* rule = dynamic_cast<asup::optim::RuleState*>(state.get()))
      rule->slots.resize(static_cast<std::size_t>(
          std::count_if(begin, end, [](std::int64_t count) { return count > 0; })));
    const auto tensors = kind_->tensors(*state);
    for (std::size_t k = 0; k < tensors.size(); ++k)
      if (begin[static_cast<std::ptrdiff_t>(k)] > 0 && !tensors[k]->defined())
        *tensors[k] = torch::zeros_like(parameters_[i].detach());
    kind_->set_steps(*state, steps);
  }
}

void OptimizerState::reset() {
  for (const torch::Tensor& parameter : parameters_) {
    OptimizerParamState* state = find(parameter);
    if (!state) continue;
    for (torch::Tensor* tensor : kind_->tensors(*state))
      if (tensor->defined()) tensor->zero_();
    kind_->set_steps(*state, 0);
  }
}

OptimizerState::Slots OptimizerState::slots(std::size_t parameter) const {
  Slots slots;
  OptimizerParamState* state = find(parameters_[parameter]);
  if (!state) return slots;
  for (const torch::Tensor* tensor : kind_->tensors(*state))
    if (tensor->defined()) slots.tensors.push_back(*tensor);
  slots.updates = std::max<std::int64_t>(1, kind_->steps(*state));
  if (const StepUnderWay* under_way = step_under_way(*kind_, *state)) {
    slots.updates = under_way->steps;
    slots.gathered = under_way->gathered;
    slots.gathered_share = under_way->share;
  }
  return slots;
}

void OptimizerState::set_slots(std::size_t parameter, const kernels::Rule& rule,
                               const Slots& slots) {
  check(slots.tensors.size() == kernels::state_slots(rule), "{} tensors for the {} slots of {}",
        slots.tensors.size(), kernels::state_slots(rule), kernels::describe(rule));
  auto state = slots.gathered.defined()
                   ? make_in_step(*kind_, slots.gathered, slots.gathered_share, slots.updates)
                   : kind_->make();
  if (auto* of_rule = dynamic_cast<asup::optim::RuleState*>(state.get()))
    of_rule->slots.resize(slots.tensors.size());
  const auto places = places_of(rule);
  const auto tensors = kind_->tensors(*state);
  for (std::size_t slot = 0; slot < slots.tensors.size(); ++slot)
    *tensors.at(places[slot]) = slots.tensors[slot];
  kind_->set_steps(*state, slots.updates);
  optimizer_.state()[parameters_[parameter].unsafeGetTensorImpl()] = std::move(state);
}

void OptimizerState::clear() {
  for (const torch::Tensor& parameter : parameters_)
    optimizer_.state().erase(parameter.unsafeGetTensorImpl());
}

namespace {
std::string name_of_state(const char* kind, const std::string& parameter) {
  return fmt::format("{}/{}", kind, parameter);
}
constexpr const char* kStep = "step";
constexpr const char* kGathered = "gathered";
constexpr const char* kGatheredShare = "gathered_share";
}  // namespace

std::vector<std::string> OptimizerState::names(const std::string& parameter) const {
  std::vector<std::string> names;
  for (const char* name : {kStep, kGathered, kGatheredShare})
    names.push_back(name_of_state(name, parameter));
  for (const char* kind : kind_->names)
    if (kind != nullptr) names.push_back(name_of_state(kind, parameter));
  return names;
}

void OptimizerState::name(std::size_t parameter, const std::string& its_name,
                          std::vector<NamedTensor>& out) const {
  OptimizerParamState* state = find(parameters_[parameter]);
  if (!state) return;
  const auto tensors = kind_->tensors(*state);
  const std::int64_t steps = kind_->steps(*state);
  bool is_there = steps > 0;
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    if (!tensors[k]->defined()) continue;
    out.push_back({name_of_state(kind_->names[k], its_name), *tensors[k]});
    is_there = true;
  }
  if (const StepUnderWay* under_way = step_under_way(*kind_, *state)) {
    out.push_back({name_of_state(kGathered, its_name), under_way->gathered});
    out.push_back({name_of_state(kGatheredShare, its_name),
                   torch::tensor(under_way->share, torch::kFloat64)});
  }
  if (is_there) out.push_back({name_of_state(kStep, its_name), torch::tensor(steps)});
}

void OptimizerState::set(std::size_t parameter, const std::string& its_name,
                         const std::map<std::string, torch::Tensor>& tensors) {
  const MakesOptimizerState state_is_made;
  const torch::Tensor& like = parameters_[parameter];
  const auto like_parameter = [&](const auto& named) {
    require(named.second.sizes() == like.sizes(), "{} is {}, and the parameter is {}", named.first,
            describe(named.second), describe(like));
    return torch::empty_like(like.detach()).copy_(named.second);
  };
  const auto steps = tensors.find(name_of_state(kStep, its_name));
  if (steps == tensors.end()) return;
  const auto gathered = tensors.find(name_of_state(kGathered, its_name));
  const auto share = tensors.find(name_of_state(kGatheredShare, its_name));
  const bool in_step = gathered != tensors.end() && share != tensors.end();
  auto state = in_step
                   ? make_in_step(*kind_, like_parameter(*gathered), share->second.item<double>(),
                                  steps->second.item<std::int64_t>())
                   : kind_->make();
  if (auto* of_rule = dynamic_cast<asup::optim::RuleState*>(state.get()))
    for (std::size_t k = 0; k < kMostTensors; ++k)
      if (tensors.contains(name_of_state(kind_->names[k], its_name))) of_rule->slots.resize(k + 1);
  const auto places = kind_->tensors(*state);
  for (std::size_t k = 0; k < places.size(); ++k) {
    const auto found = tensors.find(name_of_state(kind_->names[k], its_name));
    if (found == tensors.end()) continue;
    *places[k] = like_parameter(*found);
  }
  kind_->set_steps(*state, steps->second.item<std::int64_t>());
  optimizer_.state()[like.unsafeGetTensorImpl()] = std::move(state);
}

namespace {

struct Trained {
  std::vector<torch::Tensor> tensors;
  std::vector<std::string> names;
};

// The parameters that an optimizer can have a state of.
Trained trained_of(const std::vector<NamedTensor>& parameters) {
  Trained trained;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.requires_grad()) continue;
    trained.tensors.push_back(tensor);
    trained.names.push_back(name);
  }
  return trained;
}

// All tensors that any rank has, there on all ranks.
std::vector<NamedTensor> completed(Communicator& communicator, torch::optim::Optimizer& optimizer,
                                   const std::vector<NamedTensor>& parameters) {
  OptimizerState state(optimizer, trained_of(parameters).tensors);
  state.complete(state.most_counts(communicator));
  std::vector<NamedTensor> tensors;
  for (const auto& kind : state.tensors())
    for (const torch::Tensor& tensor : kind)
      if (tensor.defined()) tensors.push_back({"optimizer's state", tensor});
  return tensors;
}

}  // namespace

std::vector<NamedTensor> named_state(torch::optim::Optimizer& optimizer,
                                     const std::vector<NamedTensor>& parameters) {
  const Trained trained = trained_of(parameters);
  const OptimizerState state(optimizer, trained.tensors);
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < trained.names.size(); ++i) state.name(i, trained.names[i], tensors);
  return tensors;
}

void set_named_state(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                     const std::map<std::string, torch::Tensor>& tensors) {
  const Trained trained = trained_of(parameters);
  OptimizerState state(optimizer, trained.tensors);
  for (std::size_t i = 0; i < trained.names.size(); ++i) state.set(i, trained.names[i], tensors);
}

std::vector<std::string> state_names(torch::optim::Optimizer& optimizer,
                                     const std::vector<NamedTensor>& parameters) {
  const Trained trained = trained_of(parameters);
  const OptimizerState state(optimizer, trained.tensors);
  std::vector<std::string> names;
  for (const std::string& parameter : trained.names)
    for (std::string& name : state.names(parameter)) names.push_back(std::move(name));
  return names;
}

void average_state(Communicator& communicator, torch::optim::Optimizer& optimizer,
                   const std::vector<NamedTensor>& parameters) {
  average_packed(communicator, completed(communicator, optimizer, parameters));
}

void broadcast_state(Communicator& communicator, torch::optim::Optimizer& optimizer,
                     const std::vector<NamedTensor>& parameters, int root) {
  broadcast_packed(communicator, completed(communicator, optimizer, parameters), root);
}

}  // namespace asup::sync
