#include "asup/sync/gradients/all_reduce_replica.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/layout/groups.h"
#include "asup/sync/gradients/all_reduce_replica_impl.h"
#include "asup/sync/gradients/clip.h"
#include "asup/sync/model/agreement.h"
#include "asup/sync/model/buffer_exchange.h"
#include "asup/sync/model/device.h"
#include "asup/sync/model/kept_tensors.h"

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

std::optional<sync::TakenMomentum> momentum_for(const Compressor* compressor,
                                                const torch::optim::Optimizer& optimizer) {
  if (!compressor || !compressor->takes_momentum()) return std::nullopt;
  return sync::momentum_to_take(optimizer, "compress as " + compressor->description());
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

}  // namespace

AllReduceReplica::AllReduceReplica(Communicator& communicator, torch::nn::Module& module,
                                   torch::optim::Optimizer& optimizer,
                                   const AllReduceOptions& options)
    : communicator_(communicator),
      options_(options),
      bytes_before_(communicator.bytes_moved()),
      ranks_(communicator.size()),
      model_(module, optimizer),
      compressor_(make_compressor()),
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

std::unique_ptr<Compressor> AllReduceReplica::make_compressor(bool again) const {
  if (!options_.compressor) return nullptr;
  require(options_.code == kernels::Code::none,
          "gradients travel in a code, or as a compressor has them, not both");
  auto made = options_.compressor({.communicator = communicator_,
                                   .parameters = model_.trainable(),
                                   .optimizer = model_.optimizer(),
                                   .again = again});
  require(made != nullptr, "the function that is to make a compressor has made none");
  return made;
}

std::unique_ptr<sync::GradientExchange> AllReduceReplica::make_exchange(bool again) const {
  return std::make_unique<sync::GradientExchange>(
      communicator_, model_.trainable(), agree_on_order(), rules_of(options_, model_),
      /*looks=*/options_.non_finite != NonFinite::apply,
      sync::GradientCode{.code = options_.code,
                         .feedback = options_.feedback,
                         .compressor = compressor_.get(),
                         .tells = !again},
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
      "where compress takes SGD's momentum over, as dgc and onebit do, what has come is of many "
      "steps' gradients, which have no norm to clip any more: give AllReduce a clip_norm, by which "
      "they are clipped before they leave");
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

// Where the exchange has taken the momentum over, it has that of what is compressed; the optimizer
// has that of the others.
void AllReduceReplica::step_optimizer() {
  if (!taken_momentum_) {
    if (options_.clip_norm > 0) sync::clip_gradients(model_.trainable(), options_.clip_norm);
    return step_model();
  }
  check(momentum_for(compressor_.get(), model_.optimizer()) == taken_momentum_,
        "the optimizer's momentum was changed while compress has taken it over: leave it as it "
        "was when the replica was made");
  if (options_.clip_norm > 0) clip_dense();
  step_those(/*compressed=*/false);
  const sync::WithoutMomentum without(model_.optimizer());
  step_those(/*compressed=*/true);
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

void AllReduceReplica::step_those(bool compressed) {
  const auto& parameters = model_.trainable();
  std::vector<torch::Tensor> others(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& parameter = parameters[i].tensor;
    if (exchange_->coded(i) != compressed)
      others[i] = std::exchange(parameter.mutable_grad(), torch::Tensor());
    else if (compressed)  // a momentum from before it was taken over
      model_.optimizer().state().erase(parameter.unsafeGetTensorImpl());
  }
  if (!compressed || !optim::step_where_not_zero(model_.optimizer())) model_.step();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (others[i].defined()) parameters[i].tensor.mutable_grad() = others[i];
}

// As a step of its own, at the learning rate as it is: another way of training would not know of
// it. Where a rank is lost in it, others may have made it too (drop_exchange()).
void AllReduceReplica::apply_kept() {
  if (!compresses()) return;
  applies_kept_ = true;
  step_by(exchange_->take_residuals());
  applies_kept_ = false;
}

// Where they have a momentum already, the optimizer adds none.
void AllReduceReplica::step_by(const std::vector<torch::Tensor>& waiting) {
  torch::NoGradGuard no_grad;
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
  (void)finite_.count(steps_, /*finite=*/true);
  ++steps_;
  moved_ = rounds_differently_;
  synchronize();
  for (const auto& [name, parameter] : parameters) parameter.mutable_grad() = torch::Tensor();
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

std::unique_ptr<Replica> make_all_reduce_replica(Communicator& communicator,
                                                 torch::nn::Module& module,
                                                 torch::optim::Optimizer& optimizer,
                                                 const AllReduceOptions& options) {
  return std::make_unique<AllReduceReplica>(communicator, module, optimizer, options);
}

}  // namespace asup
