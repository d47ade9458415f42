#include "asup/train/loop/sync_points.h"

#include <algorithm>
#include <array>
#include <limits>

namespace asup::train {

namespace {

constexpr std::int64_t kDuties = 9;  // no fewer than there are

}  // namespace

SyncPoints::SyncPoints(RunState& run, WorkSource& source, StepLog& log)
    : run_(run),
      source_(source),
      log_(log),
      exchanges_models_(run.context().local != nullptr),
      held_(run.step()),
      done_(run.step() * kDuties) {}

void SyncPoints::hold(StopRequest& stop, const std::function<double()>& new_wait) {
  agree(stop);
  const WorkSource::SyncPoint point = source_.reach(stop.agreed);
  run_.set_step(point.step);
  const bool is_new = point.step > held_by_all_;
  const auto is_due = [&](const Every& every) { return run_.due(every, held_by_all_); };
  const auto is_last = [&] {
    return point.whole &&
           (point.step >= run_.last_step() || stop.agreed || run_.ends_early() || run_.switches());
  };
  if (point.merges) merge();
  once(Duty::merge, is_new && !point.merges && must_merge(), [&] { merge(); });
  source_.past_merge();
  once(Duty::sums, is_new, [&] { log_.sum_up(new_wait(), [&] { source_.agree_on_sums(); }); });
  if (is_new && must_merge() && !models_are_equal())
    merge();  // the loss that was logged may say so
  once(Duty::kept, is_new && run_.switches(), [&] { run_.context().replica->apply_kept(); });
  once(Duty::equality, is_new && (is_due({Every::Kind::epoch}) || is_last()) && models_are_equal(),
       [&] { run_.context().replica->check_equal(); });
  once(Duty::test, is_due(run_.config().eval_every), [&] { run_.test_between(); });
  if (is_new && is_due(run_.config().checkpoint_every) && !is_last() && run_.cuts_stages_again())
    stop.agreed = true;  // all have found the same
  once(Duty::checkpoint, is_due(run_.config().checkpoint_every) || run_.is_best_to_keep(),
       [&] { run_.save(); });
  once(Duty::timeline, is_new && !is_last(), [&] { run_.collect_timeline(); });
  if (is_last()) end_ = run_.conclude();
  if (is_new) {
    log_.resume();
    new_wait();  // in tests and checkpoints, whose time is in no row
  }
  source_.end_sync_point();
  held_ = point.step;
}

// What all who are there have done. Who was late goes on from where the others are.
void SyncPoints::agree(StopRequest& stop) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  std::array<std::int64_t, 5> most{stop.asked || stop.agreed ? 1 : 0, late_ ? kNone : -held_,
                                   late_ ? kNone : -done_, late_ ? 0 : log_.first(),
                                   late_ ? 0 : log_.collected()};
  run_.control().all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  stop.agreed = most[0] > 0;
  if (late_ && most[3] > log_.first()) {
    held_ = most[3];
    done_ = held_ * kDuties + static_cast<std::int64_t>(Duty::all);
    run_.set_step(held_);
    log_.go_on_from(held_, most[4]);
  }
  late_ = false;
  held_by_all_ = most[1] == kNone ? held_ : -most[1];
  done_by_all_ = most[2] == kNone ? done_ : -most[2];
}

// Unless all have done it before one was lost.
template <typename Work>
void SyncPoints::once(Duty duty, bool is_due, const Work& work) {
  const std::int64_t position = run_.step() * kDuties + static_cast<std::int64_t>(duty);
  if (done_by_all_ >= position) return;
  if (is_due) work();
  done_ = std::max(done_, position);
}

// Tests and checkpoints change no weights; the end of the run merges, and so does another strategy.
bool SyncPoints::must_merge() const {
  return run_.must_merge() && (exchanges_models_ || run_.context().replica->models_differ());
}

// Where gradients are averaged, ranks step alike, but for those on devices that round in other
// ways.
bool SyncPoints::models_are_equal() const {
  return exchanges_models_ ? merged_ == run_.step() : !run_.context().replica->models_differ();
}

void SyncPoints::merge() {
  run_.context().replica->synchronize();
  merged_ = run_.step();
}

void SyncPoints::missed() {
  late_ = true;
  if (run_.step() < log_.first()) run_.set_step(log_.first());
}

}  // namespace asup::train
