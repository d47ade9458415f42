#include "asup/sync/gradients/all_reduce_replica.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/layout/groups.h"
#include "asup/sync/compressors/taken_momentum.h"
#include "asup/sync/gradients/clip.h"
#include "asup/sync/gradients/finite_steps.h"
#include "asup/sync/gradients/gradient_exchange.h"
#include "asup/sync/gradients/made_steps.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/buffer_exchange.h"
#include "asup/sync/model/device.h"
#include "asup/sync/model/kept_tensors.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/sync/model/trained_model.h"
#include "asup/sync/sharded/parameters_on_demand.h"
#include "asup/sync/sharded/sharded_optimizer.h"

namespace asup {
namespace {

// From observed(): "order 3 2 1 0".
std::vector<std::size_t> parse_order(const std::string& observed, std::size_t count) {
  if (observed.empty()) return {};
  std::istringstream words(observed);
  std::string title;
  std::vector<std::size_t> order;
  words >> title;
  for (std::size_t index; words >> index;) order.push_back(index);
  std::vector<std::size_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  auto natural = layout::backwards(count);
  std::reverse(natural.begin(), natural.end());
  require(title == "order" && words.eof() && sorted == natural,
          "'{}' is no order of this model's {} parameters: it was observed from another model; "
          "leave it out",
          observed, count);
  return order;
}

// Gradients of parts leave together, when all have come: no order is better than another.
std::vector<std::size_t> order_of(const AllReduceOptions& options, std::size_t count) {
  return options.parts.is_whole() ? parse_order(options.observed, count) : layout::backwards(count);
}

std::string_view name_of(BufferSync way) {
  switch (way) {
    case BufferSync::local:
      return "local";
    case BufferSync::broadcast:
      return "broadcast";
    case BufferSync::average:
      return "average";
  }
  return "?";
}

std::unique_ptr<Compressor> compressor_of(const AllReduceOptions& options,
                                          Communicator& communicator,
                                          const sync::TrainedModel& model) {
  if (!options.compressor) return nullptr;
  require(options.code == kernels::Code::none,
          "gradients travel in a code, or as a compressor has them, not both");
  auto made = options.compressor({communicator, model.trainable(), model.optimizer()});
  require(made != nullptr, "the function that is to make a compressor has made none");
  return made;
}

std::optional<sync::TakenMomentum> momentum_for(const Compressor* compressor,
                                                const torch::optim::Optimizer& optimizer) {
  if (!compressor || !compressor->takes_momentum()) return std::nullopt;
  return sync::momentum_to_take(optimizer);
}

// Parameters that are gathered for a while are a small part of the model, and no small calls.
constexpr std::uint64_t kGroups = 32;

layout::BucketRules rules_of(const AllReduceOptions& options, const sync::TrainedModel& model) {
  layout::BucketRules rules{options.bucket_bytes, options.first_bucket_bytes,
                            options.in_place_bytes};
  if (options.shard != Shard::parameters) return rules;
  const auto most = std::max<std::uint64_t>(sync::total_bytes(model.trainable()) / kGroups,
                                            options.in_place_bytes);
  rules.groups = layout::group_by_module(sync::shapes_of(model.trainable()), most);
  return rules;
}

// One rank keeps all of them in any case.
std::optional<sync::GradientShards> gradient_shards(const AllReduceOptions& options,
                                                    const Communicator& communicator,
                                                    const torch::optim::Optimizer& optimizer) {
  if (!sync::cuts_gradients(options.shard) || communicator.size() == 1) return std::nullopt;
  return sync::GradientShards{!sync::moves_elements_alone(optimizer)};
}

void require_shardable_gradients(const AllReduceOptions& options, const sync::TrainedModel& model) {
  if (!sync::cuts_gradients(options.shard)) return;
  const std::string_view shard = config::name_of_choice(options.shard);
  require(options.code == kernels::Code::none && !options.compressor,
          "gradients that are cut into shards travel as they are: leave compress out, or use shard "
          "optimizer");
  require(!sync::travels_as_copy(model.device()),
          "shard {} is for models on the CPU, and this one is on {}: use shard optimizer", shard,
          model.device().str());
  for (const auto& [name, tensor] : model.trainable())
    require(tensor.scalar_type() != torch::kFloat16,
            "parameter {} is f16, whose averages all ranks look at, and with shard {} none has all "
            "of them: use shard optimizer, or bf16 or f32 parameters",
            name, shard);
}

constexpr std::size_t kCommon = 2;  // tensors of ReplicaState::common before the compressor's

class AllReduceReplica final : public Replica {
 public:
  AllReduceReplica(Communicator& communicator, torch::nn::Module& module,
                   torch::optim::Optimizer& optimizer, const AllReduceOptions& options);

  StepResult step() override;
  void finish_exchange() override;
  double clip_grad_norm(double max_norm) override;
  bool clips_after_exchange() const override { return !taken_momentum_; }
  void set_sync(bool sync) override { exchange_->set_sync(sync); }
  void describe_batch(std::uint64_t samples, double) override { exchange_->describe(samples); }
  void describe_weighed_batch(std::uint64_t samples) override {
    exchange_->describe_weighed(samples);
  }
  void synchronize() override;
  bool has_moved() const override {
    return moved_ || (steps_ > 0 && on_demand_ && !on_demand_->are_all_here());
  }
  bool models_differ() override { return moved_; }  // ranks step alike
  void average_buffers() override;
  void with_mean_model(const std::function<void()>& use) override;
  void with_whole_model(const std::function<void()>& use) override;
  void check_equal() override;
  std::string observed() const override;
  ReplicaState state() override;
  void restore(const ReplicaState& state) override;
  bool keeps_own_optimizer() const override { return false; }
  std::vector<sync::NamedTensor> fetch_optimizer_state() override;
  void gather_optimizer_state() override;
  void apply_kept() override;
  void recover_step() override;
  ReplicaStats stats() const override;

 private:
  std::vector<std::size_t> agree_on_order() const;
  std::unique_ptr<sync::GradientExchange> make_exchange() const;
  void drop_exchange();
  void take_over_from(int rank);
  void take_layout_from(int rank);
  void begin_anew(std::uint64_t exchanges);
  void make_shards();
  void exchange_buffers(BufferSync way);
  void learn_order();
  void step_optimizer();
  void step_model();
  void step_own_part();
  void clip_dense();
  void step_those(bool sparse);
  bool compresses() const { return options_.code != kernels::Code::none || compressor_; }

  // Constant after construction.
  Communicator& communicator_;
  const AllReduceOptions options_;
  const std::uint64_t bytes_before_;

  sync::TrainedModel model_;
  std::unique_ptr<Compressor> compressor_;                   // none: a code, or nothing
  const std::optional<sync::TakenMomentum> taken_momentum_;  // by it
  sync::FiniteSteps finite_;
  std::vector<std::size_t> order_;                       // of the gradients; empty until observed
  std::unique_ptr<sync::GradientExchange> exchange_;     // null: dropped, after a loss
  std::unique_ptr<sync::ShardedOptimizer> sharded_;      // none: each rank moves all parameters
  std::unique_ptr<sync::ParametersOnDemand> on_demand_;  // none: each rank has all of them
  const bool rounds_differently_;                        // than another rank; the same on all
  bool moved_ = false;  // since all had the same bits, where that is so
  std::uint64_t steps_ = 0;
  double buffer_seconds_ = 0;

  // Of an exchange that was dropped: what it has kept of gradients, as it was before its step and
  // as it is once that is made.
  struct Dropped {
    std::uint64_t step = 0, exchanges = 0;
    double unit = 0;
    std::vector<sync::NamedTensor> before, after;
    std::vector<sync::NamedTensor> compressor;  // its own state
  };
  std::optional<Dropped> dropped_;
  // What became of the step under way where others have made it, and this rank has their model.
  std::optional<StepResult> made_elsewhere_;
  bool is_whole_ = true;  // else it was taking over another rank's model when that was lost
  double wait_seconds_before_ = 0, exchange_seconds_before_ = 0;  // of exchanges that were dropped
};

// Whether some ranks compute on a CPU and others on GPUs, or on GPUs of several kinds, whose norms
// of equal tensors are not equal. Collective.
bool devices_differ(Communicator& communicator, const torch::Device& device) {
  double kind = 0;
  if (!device.is_cpu()) {
    const auto numbers = torch::linspace(0.1, 1, 100'003, torch::TensorOptions(device));
    kind = numbers.norm().item<double>();
  }
  std::array<double, 2> extremes{kind, -kind};
  communicator.all_reduce(buffer_of(std::span(extremes)), ReduceOp::max).or_throw();
  return extremes[0] != -extremes[1];
}

AllReduceReplica::AllReduceReplica(Communicator& communicator, torch::nn::Module& module,
                                   torch::optim::Optimizer& optimizer,
                                   const AllReduceOptions& options)
    : communicator_(communicator),
      options_(options),
      bytes_before_(communicator.bytes_moved()),
      model_(module, optimizer),
      compressor_(compressor_of(options, communicator, model_)),
      taken_momentum_(momentum_for(compressor_.get(), optimizer)),
      finite_(model_, options.non_finite, communicator.rank() == 0),
      order_(order_of(options, model_.trainable().size())),
      exchange_(make_exchange()),
      rounds_differently_(devices_differ(communicator, model_.device())) {
  sync::broadcast_tensors(communicator, model_.parameters());
  sync::broadcast_tensors(communicator, model_.buffers());
  finite_.keep_buffers();
  make_shards();
  if (options.regroup) exchange_->retake_by(options.regroup);
}

std::unique_ptr<sync::GradientExchange> AllReduceReplica::make_exchange() const {
  return std::make_unique<sync::GradientExchange>(
      communicator_, model_.trainable(), agree_on_order(), rules_of(options_, model_),
      /*looks=*/options_.non_finite != NonFinite::apply,
      sync::GradientCode{options_.code, options_.feedback, compressor_.get()},
      gradient_shards(options_, communicator_, model_.optimizer()));
}

// Where gradients are cut too, parameters are cut alike, and buckets keep the order that they begin
// with: state would have to move with them.
void AllReduceReplica::make_shards() {
  if (options_.shard == Shard::none) return;
  require(!taken_momentum_, "a compressor that takes the momentum keeps it whole: leave shard out");
  const auto& parameters = model_.trainable();
  if (exchange_->shards() && order_.empty()) order_ = layout::backwards(parameters.size());
  const layout::BucketRules rules = rules_of(options_, model_);
  sharded_ = std::make_unique<sync::ShardedOptimizer>(
      communicator_, model_.optimizer(), parameters,
      exchange_->shards() ? layout::lay_out(sync::shapes_of(parameters), order_, rules)
                          : sync::one_bucket_a_type(parameters));
  if (exchange_->shards() && options_.shard == Shard::parameters)
    on_demand_ = std::make_unique<sync::ParametersOnDemand>(sharded_->parameters(), rules.groups);
}

// The buckets' order, once it is sure that all ranks will lay them out alike.
std::vector<std::size_t> AllReduceReplica::agree_on_order() const {
  require_shardable_gradients(options_, model_);
  auto facts = sync::agreed_values("parameter", model_.parameters());
  for (auto& fact : sync::agreed_values("buffer", model_.buffers()))
    facts.push_back(std::move(fact));
  facts.push_back({"setting bucket_bytes", std::to_string(options_.bucket_bytes)});
  facts.push_back({"setting first_bucket_bytes", std::to_string(options_.first_bucket_bytes)});
  facts.push_back({"setting in_place_bytes", std::to_string(options_.in_place_bytes)});
  facts.push_back({"setting buffers", std::string(name_of(options_.buffers))});
  facts.push_back({"setting non_finite", std::string(asup::name_of(options_.non_finite))});
  facts.push_back({"setting shard", std::string(config::name_of_choice(options_.shard))});
  facts.push_back({"setting compress", std::string(kernels::name_of(options_.code))});
  facts.push_back({"setting feedback", options_.feedback ? "on" : "off"});
  facts.push_back({"compressor", compressor_ ? compressor_->description() : "none"});
  facts.push_back({"setting observed", options_.observed.empty() ? "nothing" : options_.observed});
  sync::check_agreed(communicator_, facts);
  return order_.empty() ? layout::backwards(model_.trainable().size()) : order_;
}

void AllReduceReplica::finish_exchange() {
  check(
      exchange_->sync(),
      "the exchange cannot end while synchronization is off: end the NoSync scope before the last "
      "backward of a step");
  model_.check_unchanged();
  if (on_demand_) on_demand_->check_gathered();
  exchange_->finish();
}

double AllReduceReplica::clip_grad_norm(double max_norm) {
  require(
      !taken_momentum_,
      "with compress dgc what has come is a part of the sum of many gradients, which have no norm "
      "to clip any more: give AllReduce a clip_norm, by which they are clipped before they leave");
  finish_exchange();
  sync::ShardedGradients* shards = exchange_->shards();
  const sync::ModelParts& parts = options_.parts;
  if (!shards) {
    const double norm = parts.norm(sync::gradient_norm(parts.counted(model_.trainable())));
    sync::scale_gradients(model_.trainable(), sync::clip_factor(norm, max_norm));
    return norm;
  }
  const sync::ParametersOnDemand::AsTheyLie own(on_demand_.get());
  const double norm = shards->norm(exchange_->used_anywhere());
  shards->scale(sync::clip_factor(norm, max_norm));
  return norm;
}

// Everything that can fail comes before the optimizer. All ranks know alike whether gradients were
// finite when they were exchanged, and step or do not step alike; nobody waits for a GPU.
StepResult AllReduceReplica::step() {
  finish_exchange();
  if (const auto made = std::exchange(made_elsewhere_, std::nullopt)) {
    exchange_->next_step(*made == StepResult::applied);
    return *made;
  }
  exchange_buffers(options_.buffers);
  if (order_.empty()) learn_order();
  const bool looks = options_.non_finite != NonFinite::apply;
  const bool finite = looks ? options_.parts.all(exchange_->finite()) : exchange_->finite();
  const bool admitted = finite_.admits(steps_, finite);
  if (admitted) step_optimizer();
  exchange_->next_step(admitted);
  ++steps_;
  if (!admitted) return StepResult::skipped;
  moved_ = rounds_differently_;
  return StepResult::applied;
}

void AllReduceReplica::exchange_buffers(BufferSync way) {
  if (way == BufferSync::local || model_.buffers().empty()) return;
  const auto start = Clock::now();
  if (way == BufferSync::broadcast)
    sync::broadcast_packed(communicator_, model_.buffers());
  else
    sync::average_packed(communicator_, model_.buffers());
  buffer_seconds_ += seconds_since(start);
}

void AllReduceReplica::average_buffers() { exchange_buffers(BufferSync::average); }

void AllReduceReplica::with_mean_model(const std::function<void()>& use) {
  const sync::KeptTensors statistics(model_.buffers());
  average_buffers();
  if (!moved_) return with_whole_model(use);
  const sync::KeptTensors own(model_.trainable());
  sync::average_packed(communicator_, model_.trainable());
  use();
}

void AllReduceReplica::with_whole_model(const std::function<void()>& use) {
  if (!on_demand_ || on_demand_->are_all_here()) return use();
  on_demand_->gather_all();
  const auto let_go = [](sync::ParametersOnDemand* parameters) { parameters->let_go(); };
  const std::unique_ptr<sync::ParametersOnDemand, decltype(let_go)> whole(on_demand_.get(), let_go);
  use();
}

void AllReduceReplica::synchronize() {
  if (on_demand_) on_demand_->gather_all();
  if (moved_) sync::average_packed(communicator_, model_.trainable());
  moved_ = false;
}

void AllReduceReplica::check_equal() {
  with_whole_model(
      [&] { sync::check_equal_tensors(communicator_, "parameter", model_.parameters()); });
}

// A wrong order costs overlap: from the second step on, buckets are filled in the order in which
// gradients came on rank 0 in the first.
void AllReduceReplica::learn_order() {
  const auto observed = exchange_->observed_order();
  std::vector<std::int64_t> order(observed.begin(), observed.end());
  communicator_.broadcast(buffer_of(std::span(order))).or_throw();
  order_.assign(order.begin(), order.end());
  if (order_ != layout::backwards(order_.size())) exchange_->rebuild(order_);
}

// Where the exchange has taken the momentum over, it has that of sparse gradients; the optimizer
// has that of the others.
void AllReduceReplica::step_optimizer() {
  if (!taken_momentum_) {
    if (options_.clip_norm > 0) sync::clip_gradients(model_.trainable(), options_.clip_norm);
    return step_model();
  }
  check(sync::momentum_to_take(model_.optimizer()) == taken_momentum_,
        "the optimizer's momentum was changed while compress dgc has taken it over: leave it as it "
        "was when the replica was made");
  if (options_.clip_norm > 0) clip_dense();
  step_those(/*sparse=*/false);
  const sync::WithoutMomentum without(model_.optimizer());
  step_those(/*sparse=*/true);
}

void AllReduceReplica::step_model() {
  if (!sharded_) return model_.step();
  step_own_part();
  if (on_demand_)
    on_demand_->let_go();
  else
    sharded_->parameters().gather();
}

void AllReduceReplica::step_own_part() {
  const sync::ParametersOnDemand::AsTheyLie own(on_demand_.get());
  const sync::ShardedGradients* shards = exchange_->shards();
  sharded_->step([&](const layout::Piece& piece) {
    if (shards)
      return exchange_->used_anywhere()[piece.tensor] ? shards->part(piece) : torch::Tensor();
    const torch::Tensor& parameter = model_.trainable()[piece.tensor].tensor;
    if (!parameter.grad().defined()) return torch::Tensor();
    return sync::part_of(sync::lying_as(parameter.grad(), parameter), piece);
  });
}

std::vector<sync::NamedTensor> AllReduceReplica::fetch_optimizer_state() {
  const sync::ParametersOnDemand::AsTheyLie own(on_demand_.get());
  return sharded_ ? sharded_->fetch_state() : std::vector<sync::NamedTensor>();
}

void AllReduceReplica::gather_optimizer_state() {
  if (on_demand_) on_demand_->gather_all();
  if (sharded_) sharded_->gather_state();
}

void AllReduceReplica::clip_dense() {
  const auto& parameters = model_.trainable();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!exchange_->coded(i)) sync::clip_gradients({parameters[i]}, options_.clip_norm);
}

void AllReduceReplica::step_those(bool sparse) {
  const auto& parameters = model_.trainable();
  std::vector<torch::Tensor> others(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i].tensor;
    if (exchange_->coded(i) != sparse)
      others[i] = std::exchange(parameter.mutable_grad(), torch::Tensor());
    else if (sparse)  // a momentum from before it was taken over
      model_.optimizer().state().erase(parameter.unsafeGetTensorImpl());
  }
  if (!sparse || !optim::step_where_not_zero(model_.optimizer())) model_.step();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (others[i].defined()) parameters[i].tensor.mutable_grad() = others[i];
}

// As a step of its own, at the learning rate as it is: another way of training would not know of
// it. Where it has a momentum already, the optimizer adds none.
void AllReduceReplica::apply_kept() {
  if (!compresses()) return;
  torch::NoGradGuard no_grad;
  const auto waiting = exchange_->take_residuals();
  const auto& parameters = model_.trainable();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i].tensor;
    parameter.mutable_grad() =
        waiting[i].defined() ? waiting[i].to(parameter.device()) : torch::Tensor();
  }
  const double norm = sync::gradient_norm(parameters);
  if (norm == 0) return;
  if (communicator_.rank() == 0)
    log().info("what compress has kept of gradients, of norm {:.4g}, goes into the model", norm);
  std::optional<sync::WithoutMomentum> without;
  if (taken_momentum_) without.emplace(model_.optimizer());
  step_model();
  moved_ = rounds_differently_;
  synchronize();
  for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = torch::Tensor();
}

ReplicaState AllReduceReplica::state() {
  ReplicaState state;
  if (!compresses()) return state;
  const auto unit = torch::tensor({exchange_->residual_unit()}, torch::kFloat64);
  state.common = {{"exchanges", torch::tensor({static_cast<std::int64_t>(exchange_->exchanges())},
                                              torch::kInt64)},
                  {"samples of what was lost", unit}};
  state.own = {{"samples of what was lost", unit.clone()}};
  state.parts = exchange_->residuals();
  if (!compressor_) return state;
  for (auto& named : compressor_->state()) state.common.push_back(std::move(named));
  return state;
}

// As many ranks have their own unit again, others that of rank 0.
void AllReduceReplica::restore(const ReplicaState& state) {
  moved_ = rounds_differently_;
  finite_.keep_buffers();
  if (!compresses()) return;
  exchange_->set_exchanges(static_cast<std::uint64_t>(state.common[0].tensor.item<std::int64_t>()));
  const double own = state.own[0].tensor.item<double>();
  exchange_->restore_residuals(state.parts, own > 0 ? own : state.common[1].tensor.item<double>());
  if (!compressor_) return;
  const auto own_state = compressor_->state();
  for (std::size_t i = 0; i < own_state.size(); ++i)
    own_state[i].tensor.copy_(state.common[kCommon + i].tensor);
}

void AllReduceReplica::drop_exchange() {
  if (!exchange_) return;
  dropped_.emplace();
  dropped_->step = steps_;
  dropped_->exchanges = exchange_->exchanges();
  dropped_->unit = exchange_->residual_unit();
  dropped_->before = sync::copies_of(exchange_->residuals());
  exchange_->end_step_of_residuals();
  dropped_->after = sync::copies_of(exchange_->residuals());
  if (compressor_) dropped_->compressor = sync::copies_of(compressor_->state());
  wait_seconds_before_ += exchange_->wait_seconds();
  exchange_seconds_before_ += exchange_->exchange_seconds();
  exchange_.reset();
  for (const auto& [name, parameter] : model_.trainable())
    parameter.mutable_grad() = torch::Tensor();
}

// Who is behind takes over what the furthest has made of the step, whose sums are gone.
void AllReduceReplica::recover_step() {
  const bool drops = !options_.regroup;
  if (drops) drop_exchange();
  const sync::FurthestSteps furthest = sync::furthest_steps(
      communicator_, {.steps = is_whole_ ? std::optional(steps_) : std::nullopt,
                      .exchanges = drops ? dropped_->exchanges : exchange_->exchanges(),
                      .skipped = finite_.in_succession() > 0,
                      .rounds = drops ? 0 : exchange_->rounds(),
                      .holds_averages = !drops && exchange_->holds_averages()});
  if (!drops && furthest.least == 0)
    throw PeerLost("a rank was lost in the first step, before all had the same order of gradients");
  if (!furthest.by_all) take_over_from(furthest.rank);
  const bool was_behind = steps_ < furthest.steps;
  if (was_behind) (void)finite_.count(steps_, !furthest.skipped);
  steps_ = furthest.steps;
  if (drops) return begin_anew(furthest.exchanges);
  if (was_behind) {
    made_elsewhere_ = furthest.skipped ? StepResult::skipped : StepResult::applied;
    exchange_->end_elsewhere();
  }
  if (furthest.holder) exchange_->take_averages(*furthest.holder);
  exchange_->go_on_with_the_others();
}

void AllReduceReplica::take_over_from(int rank) {
  if (communicator_.rank() != rank) is_whole_ = false;
  sync::broadcast_packed(communicator_, model_.trainable(), rank);
  sync::broadcast_state(communicator_, model_.optimizer(), model_.trainable(), rank);
  if (dropped_) take_layout_from(rank);
  is_whole_ = true;
}

// And how its gradients travel, for an exchange that is still to be made.
void AllReduceReplica::take_layout_from(int rank) {
  std::vector<std::int64_t> order(order_.begin(), order_.end());
  order.resize(model_.trainable().size(), -1);  // not learned yet
  communicator_.broadcast(buffer_of(std::span(order)), rank).or_throw();
  order_.clear();
  if (order.front() >= 0) order_.assign(order.begin(), order.end());
  sync::broadcast_packed(communicator_, dropped_->compressor, rank);
}

// Those who are left, with what each has kept.
void AllReduceReplica::begin_anew(std::uint64_t exchanges) {
  compressor_ = compressor_of(options_, communicator_, model_);
  exchange_ = make_exchange();
  exchange_->set_exchanges(exchanges);
  exchange_->restore_residuals(steps_ > dropped_->step ? dropped_->after : dropped_->before,
                               dropped_->unit);
  if (compressor_) {
    const auto state = compressor_->state();
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i].tensor.copy_(dropped_->compressor[i].tensor);
  }
  dropped_.reset();
}

std::string AllReduceReplica::observed() const {
  if (order_.empty() || !options_.parts.is_whole()) return options_.chosen;
  return options_.chosen + fmt::format("order {}", fmt::join(order_, " "));
}

ReplicaStats AllReduceReplica::stats() const {
  const double others = buffer_seconds_ + (on_demand_ ? on_demand_->wait_seconds() : 0);
  return {
      .steps = steps_,
      .wait_seconds = wait_seconds_before_ + others + (exchange_ ? exchange_->wait_seconds() : 0),
      .exchange_seconds =
          exchange_seconds_before_ + others + (exchange_ ? exchange_->exchange_seconds() : 0),
      .bytes_moved = communicator_.bytes_moved() - bytes_before_ +
                     (compressor_ ? compressor_->bytes_moved() : 0),
      .noise_scale = exchange_ ? exchange_->noise_scale() : std::nullopt,
      .skipped = finite_.skipped(),
      .skipped_in_succession = finite_.in_succession(),
      .skipped_lately = finite_.lately()};
}

}  // namespace

std::unique_ptr<Replica> make_all_reduce_replica(Communicator& communicator,
                                                 torch::nn::Module& module,
                                                 torch::optim::Optimizer& optimizer,
                                                 const AllReduceOptions& options) {
  return std::make_unique<AllReduceReplica>(communicator, module, optimizer, options);
}

}  // namespace asup
