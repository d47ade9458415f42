#include "asup/train/loop/lease_loop.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/train/loop/leased_samples.h"
#include "asup/train/loop/roll_call.h"
#include "asup/train/loop/sync_point_tally.h"
#include "asup/train/loop/train_step.h"

namespace asup::train {
namespace {

class LeaseLoop {
 public:
  LeaseLoop(RunState& run, Job& job, const std::function<bool()>& stop_asked);
  ~LeaseLoop() { server_.when_released({}); }
  LeaseLoop(const LeaseLoop&) = delete;
  LeaseLoop& operator=(const LeaseLoop&) = delete;

  TrainEnd train();

 private:
  void work();
  double train_on(const LeasedSamples::Part& part);
  void note(const LeasedSamples::Part& part, double loss);
  void show(std::int64_t step, double loss, double waited);
  void begin_sync_point();
  void hold_sync_point();
  int sum_up();
  void log_rows(const std::vector<double>& sums);
  std::int64_t samples_between(std::int64_t begin, std::int64_t end) const;

  RunState& run_;
  TrainingContext& context_;
  ServerReplica& server_;
  const std::function<bool()>& stop_asked_;
  TrainStep train_step_;
  const std::vector<std::int64_t> sync_points_;

  LeasedSamples samples_;
  RollCall workers_;
  SyncPointTally tally_;
  double waited_ = 0;   // of the replica's wait_seconds, told so far
  bool asked_ = false;  // for a sync point, to stop there
  bool stopping_ = false;

  // Of the sync point, as all of them see it when it begins.
  bool is_new_ = false;  // steps were done before it; else somebody asked for one after the last
  bool wants_test_ = false, wants_checkpoint_ = false;  // for the end of the run
  int duties_done_ = 0;                                 // of hold_sync_point(), here
  std::size_t here_at_first_ = 0;                       // workers, when it began
  std::optional<TrainEnd> end_;                         // where it is the last

  std::int64_t shown_ = 0;  // steps
  double shown_at_ = 0;
  std::int64_t logged_ = 0;  // steps
};

LeaseLoop::LeaseLoop(RunState& run, Job& job, const std::function<bool()>& stop_asked)
    : run_(run),
      context_(run.context()),
      server_(*context_.server),
      stop_asked_(stop_asked),
      train_step_(*context_.model, *context_.optimizer, server_, context_.path, run.config(),
                  run.hooks()),
      sync_points_(sync_points(run.config(), context_.length)),
      samples_(run.config(), context_.length, *context_.train, *context_.batches),
      workers_(run, job.rank()),
      tally_(run.config().log_every),
      shown_(run.step()),
      logged_(run.step()) {
  server_.when_released([this](const ps::Release& release) { samples_.prepare(release); });
}

TrainEnd LeaseLoop::train() {
  if (run_.step() >= run_.last_step()) return run_.conclude();
  using Next = ps::Release::Next;
  double began = run_.seconds();
  server_.arrive();
  for (;;) {
    tally_.begin(run_.step(), began);
    shown_at_ = began;
    while (server_.release().next == Next::lease) work();
    check(server_.release().next == Next::sync_point,
          "the servers end the work before its last sync point");
    begin_sync_point();
    const std::uint64_t sync_point = server_.release().step;
    do {
      workers_.meet([&] { hold_sync_point(); });
      if (run_.is_first_rank())
        write_atomically(run_.folder().server_file(), server_.report() + "\n");
      began = run_.seconds();
      server_.arrive(workers_.left());
      // The same sync point again: somebody was lost in it, and not all have ended it.
    } while (server_.release().next == Next::sync_point && server_.release().step == sync_point);
    if (end_) return *end_;
  }
}

void LeaseLoop::work() {
  const ps::Release lease = server_.release();
  double loss = 0;
  for (std::uint64_t at = lease.begin; at < lease.end;) {
    const LeasedSamples::Part part = samples_.part_at(lease, at);
    const double of_part = train_on(part);
    loss += of_part;
    at += part.samples.size();
    if (at < lease.end) {
      server_.step_alone();
    } else {
      server_.describe_batch(lease.end - lease.begin, loss);
      server_.step();
    }
    note(part, of_part);
  }
}

// Returns the sum of the losses.
double LeaseLoop::train_on(const LeasedSamples::Part& part) {
  const data::Batch batch = samples_.take(part);
  const auto count = part.samples.size();
  const double lr = learning_rate(run_.config(), context_.length, part.step);
  const double loss =
      train_step_.gradients(batch, 1 / static_cast<double>(count), lr, run_.share_done(part.step));
  check(std::isfinite(loss) || run_.config().strategy.capabilities().skips_non_finite,
        "the loss became {} in step {}: training has diverged. A lower learning rate (lr is {:g}) "
        "or a warm-up may help.",
        loss, part.step + 1, lr);
  if (!asked_ && stop_asked_()) {
    asked_ = true;
    server_.ask_for_sync_point();
  }
  return loss;
}

void LeaseLoop::note(const LeasedSamples::Part& part, double loss) {
  const double waited = server_.stats().wait_seconds;
  const double for_this = waited - std::exchange(waited_, waited);
  const auto samples = static_cast<double>(part.samples.size());
  const std::int64_t step = part.step;
  const bool counts = std::isfinite(loss);  // else servers skip the push, and count it
  tally_.add(step, counts ? loss : 0, counts ? samples : 0, for_this, run_.seconds());
  const auto sync_point = std::upper_bound(sync_points_.begin(), sync_points_.end(), shown_);
  const bool shows =
      step + 1 > shown_ && sync_point != sync_points_.end() && step + 1 < *sync_point;
  if (run_.is_first_rank() && counts && shows) show(step + 1, loss / samples, for_this);
}

// Steps up to `step`, as rank 0 sees them.
void LeaseLoop::show(std::int64_t step, double loss, double waited) {
  report::StepRecord record;
  record.step = step;
  record.epoch = (step - 1) / context_.length.steps_per_epoch + 1;
  record.lr = learning_rate(run_.config(), context_.length, step - 1);
  record.loss = loss;
  record.samples = samples_between(shown_, step);
  record.seconds = run_.seconds();
  record.step_seconds = record.seconds - shown_at_;
  record.comm_s = std::min(waited, record.step_seconds);
  shown_ = step;
  shown_at_ = record.seconds;
  run_.tell(&report::Observer::stepped, record);
}

std::int64_t LeaseLoop::samples_between(std::int64_t begin, std::int64_t end) const {
  std::size_t samples = 0;
  for (std::int64_t step = begin; step < end; ++step) {
    const auto per_epoch = context_.length.steps_per_epoch;
    samples += context_.batches->global_count(static_cast<std::uint64_t>(step / per_epoch),
                                              static_cast<std::size_t>(step % per_epoch));
  }
  return static_cast<std::int64_t>(samples);
}

void LeaseLoop::begin_sync_point() {
  const std::int64_t step = samples_.steps_at(server_.release());
  is_new_ = step > run_.step();
  run_.set_step(step);
  wants_test_ = run_.wants_last_test();
  wants_checkpoint_ = run_.wants_last_checkpoint();
  duties_done_ = 0;
  here_at_first_ = workers_.left().size();
}

// What some have done and others have not, when somebody was lost, all do again.
void LeaseLoop::hold_sync_point() {
  const int done_by_all = sum_up();
  const bool is_last = run_.step() >= run_.last_step() || stopping_ || run_.switches();
  int number = 0;
  const auto duty = [&](bool is_due, const auto& work) {
    if (++number <= done_by_all) return;
    if (is_due) work();
    duties_done_ = number;
  };
  duty(is_new_ && (run_.ends_epoch() || is_last), [&] { server_.check_equal(); });
  duty((is_new_ && run_.due(run_.config().eval_every)) || (is_last && wants_test_),
       [&] { run_.test(); });
  duty((is_new_ && run_.due(run_.config().checkpoint_every)) ||
           (is_last && wants_checkpoint_ && !run_.switches()),
       [&] { run_.save(); });
  duty(is_last, [&] { end_ = run_.conclude(); });
}

// Returns how many of the sync point's duties all have done.
int LeaseLoop::sum_up() {
  std::vector<double> sums = tally_.sums(run_.step());
  sums.push_back(stopping_ || stop_asked_() ? 1 : 0);
  run_.control().all_reduce(buffer_of(std::span(sums))).or_throw();
  std::int32_t done = duties_done_;
  run_.control().all_reduce(buffer_of(std::span(&done, 1)), ReduceOp::min).or_throw();
  stopping_ = sums.back() > 0;
  sums.pop_back();
  if (logged_ >= run_.step()) return done;  // before somebody was lost in this sync point
  log_rows(sums);
  logged_ = run_.step();
  return done;
}

void LeaseLoop::log_rows(const std::vector<double>& sums) {
  const std::vector<std::int64_t> last = tally_.last_steps(run_.step());
  const std::vector<double> ends = tally_.ends(run_.step(), run_.seconds());
  const auto workers = static_cast<double>(run_.control().size());
  report::StepRecord whole;
  std::int64_t told = logged_;
  double told_at = tally_.began();
  const bool lost_some = workers_.left().size() < here_at_first_;
  for (std::size_t i = 0; i < last.size(); ++i) {
    // Losses that a lost worker alone knew are lost with it: such steps are told with the next.
    const bool is_unknown = lost_some && sums[3 * i + 1] == 0;
    if (is_unknown && i + 1 < last.size()) continue;
    report::StepRecord row;
    row.step = last[i];
    row.epoch = (row.step - 1) / context_.length.steps_per_epoch + 1;
    row.lr = learning_rate(run_.config(), context_.length, row.step - 1);
    row.loss = is_unknown ? run_.last_loss() : sums[3 * i] / sums[3 * i + 1];
    row.samples = samples_between(std::exchange(told, row.step), row.step);
    row.seconds = ends[i];
    row.step_seconds = ends[i] - std::exchange(told_at, ends[i]);
    row.comm_s = std::min(sums[3 * i + 2] / workers, row.step_seconds);
    check(std::isfinite(row.loss),
          "no worker had a loss that is a number up to step {}: training has diverged. A lower "
          "learning rate (lr is {:g}) or a warm-up may help.",
          row.step, row.lr);
    run_.log(row);
    whole.samples == 0 ? void(whole = row) : whole.add(row);
  }
  run_.totals().train_seconds += whole.step_seconds;
  run_.totals().comm_s += whole.comm_s;
  run_.totals().samples += whole.samples;
  if (run_.is_first_rank() && run_.step() > shown_) show(run_.step(), whole.loss, 0);
}

}  // namespace

TrainEnd train_by_leases(RunState& run, Job& job, const std::function<bool()>& stop_asked) {
  return LeaseLoop(run, job, stop_asked).train();
}

}  // namespace asup::train
