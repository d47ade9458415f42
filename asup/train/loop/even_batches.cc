#include "asup/train/loop/even_batches.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/log.h"
#include "asup/train/state/inputs.h"

namespace asup::train {
namespace {

constexpr std::size_t kAhead = 2;           // batches
constexpr std::int64_t kBalanceEvery = 10;  // steps
constexpr std::int64_t kBalanceFirst = 4;   // steps of this call: speeds are told after each

}  // namespace

EvenBatches::EvenBatches(RunState& run)
    : run_(run),
      context_(run.context()),
      began_(run.step()),
      exchanges_models_(context_.local != nullptr),
      updates_(run.config(), context_.length),
      groups_(context_.groups()),
      held_(run.step()),
      before_(run.step()) {
  if (!run.config().balance) return;
  balance_.emplace(run.control(), run.config().batch, context_.choices.parts);
  context_.choices.parts = balance_->parts();
}

WorkSource::Traits EvenBatches::traits() const {
  return {.lockstep = true,
          .skips_non_finite = run_.config().strategy.capabilities().skips_non_finite,
          .rows_may_be_empty = updates_.grow(),
          .recovers_in_steps = true};
}

std::uint64_t EvenBatches::epoch() const {
  return static_cast<std::uint64_t>(run_.step() / context_.length.steps_per_epoch);
}

std::size_t EvenBatches::step_in_epoch() const {
  return static_cast<std::size_t>(run_.step() % context_.length.steps_per_epoch);
}

StepWork EvenBatches::next() {
  StepWork work;
  since_ = Clock::now();
  work.alone = is_behind();
  steps_ = work.alone ? 1 : updates_.steps(run_.step());
  work.batch =
      work.alone ? context_.train->get(context_.batches->indices(epoch(), step_in_epoch()), epoch())
                 : next_batches();
  work.step = from_ = run_.step();
  work.lr = learning_rate(run_.config(), context_.length, work.step);
  work.parts = context_.choices.parts;
  samples_ = work.batch.input.size(0);
  // Gradients are averaged over ranks, and the update wants the mean over samples; where ranks step
  // on their own, it is over their own samples, and models are weighted by those.
  std::size_t of_all = 0;
  for (std::int64_t i = 0; i < steps_; ++i)
    of_all +=
        context_.batches->global_count(epoch(), step_in_epoch() + static_cast<std::size_t>(i));
  work.weight = exchanges_models_ ? 1 / static_cast<double>(std::max<std::int64_t>(1, samples_))
                                  : context_.groups() / static_cast<double>(of_all);
  return work;
}

data::Batch EvenBatches::next_batches() {
  if (steps_ == 1) return next_batch();
  std::vector<torch::Tensor> inputs, targets;
  for (std::int64_t i = 0; i < steps_; ++i) {
    const data::Batch batch = next_batch();
    inputs.push_back(batch.input);
    targets.push_back(batch.target);
  }
  return {torch::cat(inputs), torch::cat(targets)};
}

// Batches of an epoch, or what is left of it, are assembled ahead, as long as parts stay what they
// are.
data::Batch EvenBatches::next_batch() {
  if (groups_ != context_.groups()) deal_out_anew();
  if (ahead_ && parts_ahead_ == context_.choices.parts)
    if (auto batch = ahead_->next()) return *batch;
  parts_ahead_ = context_.choices.parts;
  ahead_.emplace(*context_.train, *context_.batches, epoch(), step_in_epoch(), kAhead,
                 parts_ahead_);
  const auto batch = ahead_->next();
  check(batch.has_value(), "step {} is in no epoch", run_.step());
  since_ = Clock::now();  // waiting for the first tells nothing of those to come
  return *batch;
}

// Among those who are left.
void EvenBatches::deal_out_anew() {
  groups_ = context_.groups();
  TrainConfig left = run_.config();
  left.workers = groups_ * left.pipeline * left.tensor;
  ahead_.reset();
  context_.batches = make_batches(left, *context_.train, context_.group());
  if (!balance_) return;
  balance_.emplace(run_.control(), left.batch, std::vector<std::int64_t>());
  context_.choices.parts = balance_->parts();
}

void EvenBatches::computed(const StepOutcome& outcome) {
  before_ = outcome.step;
  run_.set_step(outcome.step + steps_);
}

void EvenBatches::stepped(double waited) {
  if (!balance_) return;
  balance_->worked(samples_, seconds_since(since_) - waited);
  rebalance();
  const bool speeds_due = run_.step() % kBalanceEvery == 0 || is_beginning();
  if (!speeds_due || run_.step() >= run_.last_step()) return;
  balance_->start();
  if (is_beginning()) rebalance();  // a step in bad parts is longer than waiting for it
}

void EvenBatches::rebalance() {
  if (!balance_->collect()) return;
  context_.choices.parts = balance_->parts();
  if (run_.is_first_rank())
    log().info("after step {}, batches are dealt out by {}", run_.step(),
               fmt::join(context_.choices.parts, " "));
}

bool EvenBatches::is_beginning() const { return run_.step() <= began_ + kBalanceFirst; }

// Where gradients are averaged, ranks wait for each other in every step, and a few figures more
// cost nothing. Where they step on their own, figures are summed now and then.
bool EvenBatches::sums_due() const {
  constexpr std::int64_t kEvery = 10;  // steps: somebody may watch, or wait for the run to stop
  if (at_sync_point() || is_behind()) return false;
  const std::int64_t log_every = run_.config().log_every;
  return !exchanges_models_ || run_.step() % std::min(kEvery, log_every) == 0 ||
         run_.step() % log_every == 0;
}

// See sync_points() of schedule.h.
bool EvenBatches::at_sync_point() const {
  return run_.ends_epoch() || run_.step() >= run_.last_step() ||
         run_.due(run_.config().eval_every, before_) ||
         run_.due(run_.config().checkpoint_every, before_);
}

bool EvenBatches::sync_point_due(const StopRequest& stop) {
  return run_.step() > held_ && (at_sync_point() || stop.agreed || run_.switches());
}

WorkSource::SyncPoint EvenBatches::reach(bool) {
  return {.step = run_.step(), .merges = must_merge_};
}

// Who is past the barrier knows that all have held it; else, where somebody is lost in it, all hold
// it again.
void EvenBatches::end_sync_point() {
  run_.control().barrier().or_throw();
  held_ = run_.step();
  must_merge_ = false;
}

void EvenBatches::end_lost_step(bool made) {
  before_ = from_;
  run_.set_step(made ? from_ + steps_ : from_);
}

// Those who are left have found together again, each in the step in which it missed the lost one.
// Who is behind takes the steps alone that others have taken; then all merge, and deal out the
// steps to come among themselves. What the lost one had of the steps until here is lost.
void EvenBatches::regroup() {
  furthest_ = run_.step();
  run_.control().all_reduce(buffer_of(std::span(&furthest_, 1)), ReduceOp::max).or_throw();
  must_merge_ = exchanges_models_;
}

}  // namespace asup::train
