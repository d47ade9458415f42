// What a replica by all-reduce has kept, for those who go on from it: in a checkpoint, or without a
// rank that was lost.
#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/sync/gradients/all_reduce_replica_impl.h"
#include "asup/sync/model/buffer_exchange.h"
#include "asup/sync/model/optimizer_state.h"

namespace asup {
namespace {

constexpr std::size_t kCommon = 2;  // tensors of ReplicaState::common before the compressor's

}  // namespace

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
  dropped_->norm = exchange_->residual_norm();
  dropped_->applied_all = applies_kept_;
  dropped_->before = sync::copies_of(exchange_->residuals());
  if (std::exchange(applies_kept_, false))
    exchange_->clear_residuals();
  else
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
                      .holds_averages = !drops && exchange_->holds_averages(),
                      .kept_norm = drops ? dropped_->norm : exchange_->residual_norm()});
  if (!drops && furthest.least == 0)
    throw PeerLost("a rank was lost in the first step, before all had the same order of gradients");
  const bool was_behind = steps_ < furthest.steps;
  if (drops && !was_behind) finite_.take_buffers_back();
  if (!furthest.by_all) take_over_from(furthest.rank);
  if (was_behind) (void)finite_.count(steps_, !furthest.skipped);
  steps_ = furthest.steps;
  moved_ = rounds_differently_ && furthest.by_all;  // else all have the model of one
  tell_of_lost(furthest);
  if (drops) return begin_anew(furthest);
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
  if (dropped_ && options_.buffers != BufferSync::local)
    sync::broadcast_packed(communicator_, model_.buffers(), rank);
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

// What a lost rank had kept is in no average any more. Nobody can say how much it was, but all have
// kept about as much. Not where a step has just applied it.
void AllReduceReplica::tell_of_lost(const sync::FurthestSteps& furthest) {
  const int lost = ranks_ - communicator_.size();
  ranks_ = communicator_.size();
  const bool was_applied = dropped_ && dropped_->applied_all && furthest.steps > dropped_->step;
  if (lost <= 0 || was_applied || furthest.kept_norm == 0 || communicator_.rank() != 0) return;
  log().warn(
      "what {} had kept for later exchanges is lost: a norm of about {:.4g}{}, which is the mean "
      "of "
      "what the {} have kept who go on",
      lost == 1 ? "a lost worker" : fmt::format("{} lost workers", lost), furthest.kept_norm,
      lost == 1 ? "" : " each", ranks_);
}

// Those who are left, with what each has kept.
void AllReduceReplica::begin_anew(const sync::FurthestSteps& furthest) {
  const bool was_applied = furthest.steps > dropped_->step && !furthest.skipped;
  compressor_ = make_compressor(/*again=*/true);
  exchange_ = make_exchange(/*again=*/true);
  exchange_->set_exchanges(furthest.exchanges);
  exchange_->restore_residuals(was_applied ? dropped_->after : dropped_->before, dropped_->unit);
  if (compressor_) {
    const auto state = compressor_->state();
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i].tensor.copy_(dropped_->compressor[i].tensor);
  }
  dropped_.reset();
}

}  // namespace asup
