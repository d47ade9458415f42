#include "asup/train/loop/step_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "asup/base/error.h"
#include "asup/sync/gradients/finite_steps.h"

namespace asup::train {
namespace {

void put(report::StepRecord& to, const report::StepRecord& later) {
  to.samples == 0 ? void(to = later) : to.add(later);
}

}  // namespace

StepLog::StepLog(RunState& run, const WorkSource::Traits& traits)
    : run_(run),
      traits_(traits),
      samples_(run.context().length, *run.context().batches),
      updates_(run.config(), run.context().length),
      sync_points_(sync_points(run.config(), run.context().length)),
      metrics_(run.control(), run.config().log_every),
      told_(run.step()),
      shown_(run.step()),
      shown_at_(run.seconds()) {
  metrics_.begin(run.step(), shown_at_);
}

void StepLog::resume() {
  shown_at_ = run_.seconds();
  metrics_.resume(shown_at_);
}

void StepLog::add(const StepOutcome& outcome) {
  if (std::isfinite(outcome.loss) || !traits_.skips_non_finite)
    metrics_.add(outcome.step, outcome.loss, static_cast<double>(outcome.samples));
  else
    metrics_.leave_out(outcome.step, static_cast<double>(outcome.samples));
}

void StepLog::took(const StepWork& work, const StepOutcome& outcome, double waited) {
  const double now = run_.seconds();
  parts_ = work.parts;
  metrics_.took(outcome.step, waited, now);
  waited_ += waited;
  if (traits_.lockstep || !std::isfinite(outcome.loss) || outcome.samples == 0) return;
  // Until the sums are there, this worker's own loss and wait are shown.
  const auto next = std::upper_bound(sync_points_.begin(), sync_points_.end(), run_.step());
  if (outcome.step + 1 <= shown_ || next == sync_points_.end() || outcome.step + 1 >= *next) return;
  shown_wait_ += waited;
  show(outcome.step + 1, outcome.loss / static_cast<double>(outcome.samples), waited, now);
}

void StepLog::skipped(const StepOutcome& outcome, std::uint64_t steps, Metrics::GivesUp gives_up) {
  metrics_.skip(outcome.step, static_cast<double>(steps), gives_up, outcome.loss);
}

// What belongs to the steps that are summed now, and may have changed when the sums are there.
void StepLog::prepare_sums() {
  stats_ = run_.context().replica->stats();
  noise_scale_ = run_.noise_scale();
  told_parts_ = parts_;
}

void StepLog::start(bool stop) {
  prepare_sums();
  metrics_.start(run_.step(), run_.seconds(), stop, Metrics::When::beside);
}

bool StepLog::collect() {
  const auto sums = metrics_.collect();
  return sums && take_in(*sums);
}

void StepLog::sum_up(double waited, const std::function<void()>& all_have) {
  collect();  // of the steps before
  const std::int64_t step = run_.step();
  if (step > metrics_.first()) {
    prepare_sums();
    metrics_.took(step - 1, waited, run_.seconds());
    waited_ += waited;
    waits_ = gather_waits();
    metrics_.start(step, run_.seconds(), false, Metrics::When::at_collect);
    take_in(*metrics_.collect(all_have));
    waited_ = 0;
  }
  flush();
  lost_some_ = false;
}

void StepLog::regroup() {
  lost_some_ = true;
  if (const auto sums = metrics_.regroup()) take_in(*sums);
}

void StepLog::go_on_from(std::int64_t step, std::int64_t collected) {
  metrics_.go_on_from(step, run_.seconds(), collected);
  told_ = step;
}

// Losses that a lost worker alone knew are lost with it, and workers at their own pace may go over
// steps: these are in the row of the next.
bool StepLog::is_known(const Metrics::Row& row) const {
  return row.samples > 0 || row.left_out > 0 || row.diverged != 0 ||
         !(traits_.rows_may_be_empty || lost_some_);
}

// Returns whether a worker was asked to stop.
bool StepLog::take_in(const Metrics::Sums& sums) {
  std::size_t last = sums.rows.size();
  while (last > 1 && !is_known(sums.rows[last - 1])) --last;
  report::StepRecord whole;
  double began = sums.rows.empty() ? 0 : sums.rows.front().began;
  for (std::size_t i = 0; i < last; ++i) {
    if (i + 1 < last && !is_known(sums.rows[i])) continue;
    Metrics::Row row = sums.rows[i];
    const Metrics::Row& end = i + 1 == last ? sums.rows.back() : row;
    row.began = std::exchange(began, end.ended);
    row.ended = end.ended;
    const std::int64_t before = told_;
    report::StepRecord record = record_of(row, end.step);
    if (i + 1 == last) {
      record.merges =
          static_cast<std::int64_t>(stats_.merges - std::exchange(merges_, stats_.merges));
      record.consensus_distance = stats_.consensus_distance;
      record.noise_scale = noise_scale_;
      record.waits = std::exchange(waits_, {});
    }
    put(row_, record);
    put(whole, record);
    require_finite(row, record);
    const std::int64_t every = run_.config().log_every;
    if (record.step / every > before / every) flush();
  }
  run_.totals().train_seconds += whole.step_seconds;
  run_.totals().comm_s += whole.comm_s;
  run_.totals().samples += whole.samples;
  run_.totals().skipped_steps += whole.skipped;
  const double shown = std::exchange(shown_wait_, 0);
  if (whole.step > shown_)
    show(whole.step, whole.loss, std::max(0.0, whole.comm_s - shown), whole.seconds, whole.skipped);
  return sums.stop;
}

report::StepRecord StepLog::blank_record(std::int64_t step) const {
  report::StepRecord record;
  record.step = step;
  record.epoch = (step - 1) / run_.context().length.steps_per_epoch + 1;
  record.lr = learning_rate(run_.config(), run_.context().length, updates_.begin(step - 1));
  return record;
}

report::StepRecord StepLog::record_of(const Metrics::Row& row, std::int64_t step) {
  report::StepRecord record = blank_record(step);
  record.loss = is_known(row) ? row.loss / row.samples : run_.last_loss();
  const std::int64_t of_steps = samples_.of(step) - samples_.of(std::exchange(told_, step));
  record.samples = traits_.counts_by_steps ? of_steps : std::llround(row.samples + row.left_out);
  record.skipped = std::llround(row.skipped);
  record.seconds = row.ended;
  record.step_seconds = row.ended - row.began;
  // The mean over workers, whose clocks do not begin and end a row at the same moment.
  record.comm_s = std::min(row.waited, record.step_seconds);
  record.parts = told_parts_;
  return record;
}

// The steps until there are told, whose losses show how it came to this. Where losses that are no
// numbers are left out, a whole row may be without one, until too many steps were skipped.
void StepLog::require_finite(const Metrics::Row& row, const report::StepRecord& record) {
  const bool has_loss = std::isfinite(record.loss) || row.left_out > 0;
  if (std::isfinite(row.diverged) && has_loss && row.given_up == 0) return;
  run_.log(row_);
  const double loss = std::isfinite(row.diverged) ? record.loss : row.diverged;
  const std::string what =
      row.given_up > 0 && std::isfinite(row.diverged)
          ? fmt::format("gradients became infinite or NaN in step {}", record.step)
          : fmt::format("the loss became {} in step {}", loss, record.step);
  std::string skipped;
  if (row.in_succession > 0)
    skipped = fmt::format(" {} steps in succession were skipped.", sync::kMostSkippedSteps);
  else if (row.given_up > 0)
    skipped = " More than half of the last steps were skipped.";
  const auto& scaler = run_.context().scaler;
  const std::string scale =
      scaler ? fmt::format(", or a smaller loss-scale (it has come to {:g})", scaler->scale()) : "";
  throw Error(fmt::format(
      "{}: training has diverged. A lower learning rate (lr is {:g}) or a warm-up may help{}.{}",
      what, record.lr, scale, skipped));
}

// Those of workers that are lost are no numbers.
std::vector<double> StepLog::gather_waits() const {
  std::array<double, 2> own{static_cast<double>(run_.rank()), waited_};
  std::vector<double> all(own.size() * static_cast<std::size_t>(run_.control().size()));
  run_.control().all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::vector<double> waits(static_cast<std::size_t>(run_.config().workers), std::nan(""));
  for (std::size_t i = 0; i < all.size(); i += own.size())
    waits.at(static_cast<std::size_t>(all[i])) = all[i + 1];
  return waits;
}

void StepLog::flush() {
  if (row_.samples > 0) run_.log(row_);
  row_ = {};
}

// Steps up to `step`, for people who watch.
void StepLog::show(std::int64_t step, double loss, double comm_s, double now,
                   std::int64_t skipped) {
  report::StepRecord record = blank_record(step);
  record.loss = loss;
  record.samples = samples_.of(step) - samples_.of(std::exchange(shown_, step));
  record.seconds = now;
  record.step_seconds = now - std::exchange(shown_at_, now);
  record.comm_s = std::min(comm_s, record.step_seconds);
  record.skipped = skipped;
  run_.tell(&report::Observer::stepped, record);
}

}  // namespace asup::train
