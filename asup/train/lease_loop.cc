#include "asup/train/lease_loop.h"

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/train/fence_tally.h"
#include "asup/train/handicap.h"
#include "asup/train/roll_call.h"
#include "asup/train/stepper.h"

namespace asup::train {
namespace {

class LeaseLoop {
 public:
  LeaseLoop(Run& run, Job& job, const std::function<bool()>& stop_asked);
  void train();

 private:
  void work();
  void note(const ps::Release& lease, double loss);
  void show(std::int64_t step, double loss, double waited);
  void hold_fence(bool is_new);
  void sum_up();
  void log_rows(const std::vector<double>& sums);
  std::int64_t samples_between(std::int64_t begin, std::int64_t end) const;

  Run& run_;
  Setup& setup_;
  ServerReplica& server_;
  const std::function<bool()>& stop_asked_;
  Stepper stepper_;
  Handicap handicap_;
  const std::vector<std::int64_t> fences_;

  RollCall workers_;
  FenceTally tally_;
  double waited_ = 0;   // of the replica's wait_seconds, told so far
  bool asked_ = false;  // for a fence, to stop there
  bool stopping_ = false;

  std::int64_t shown_ = 0;  // steps
  double shown_at_ = 0;
  std::int64_t logged_ = 0;  // steps
};

LeaseLoop::LeaseLoop(Run& run, Job& job, const std::function<bool()>& stop_asked)
    : run_(run),
      setup_(run.setup()),
      server_(*setup_.server),
      stop_asked_(stop_asked),
      stepper_(*setup_.model, *setup_.optimizer, server_, setup_.path, run.config().accumulate),
      handicap_(Handicap::from(net::process_environment(), job.rank(), run.config().seed)),
      fences_(fences(run.config(), setup_.length)),
      workers_(run, job.rank()),
      tally_(run.config().log_every),
      shown_(run.step()),
      logged_(run.step()) {}

void LeaseLoop::train() {
  if (run_.step() >= run_.last_step()) return;
  using Next = ps::Release::Next;
  do {
    tally_.begin(run_.step(), run_.seconds());
    shown_at_ = run_.seconds();
    server_.arrive();
    while (server_.release().next == Next::lease) work();
    if (server_.release().next == Next::end) return;
    const auto step = static_cast<std::int64_t>(server_.release().step);
    const bool is_new = step > run_.step();  // else somebody asked for one right after the last
    run_.set_step(step);
    workers_.meet([&] { hold_fence(is_new); });
    if (run_.is_first_rank())
      write_atomically(run_.folder().server_file(), server_.report() + "\n");
  } while (run_.step() < run_.last_step() && !stopping_);
}

void LeaseLoop::work() {
  const ps::Release lease = server_.release();
  const auto per_epoch = static_cast<std::uint64_t>(setup_.length.steps_per_epoch);
  const std::uint64_t epoch = lease.step / per_epoch;
  const auto indices =
      setup_.batches->indices(epoch, lease.step % per_epoch, {lease.begin, lease.end});
  const double lr =
      learning_rate(run_.config(), setup_.length, static_cast<std::int64_t>(lease.step));
  handicap_.before_batch(
      indices.size(), static_cast<double>(lease.step) / static_cast<double>(setup_.length.steps));
  const double loss = stepper_.gradients(setup_.train->get(indices, epoch),
                                         1 / static_cast<double>(indices.size()), lr);
  handicap_.after_batch(indices.size());
  check(std::isfinite(loss) || run_.config().non_finite != "apply",
        "the loss became {} in step {}: training has diverged. A lower learning rate (lr is {:g}) "
        "or a warm-up may help.",
        loss, lease.step + 1, lr);
  server_.describe_batch(indices.size(), loss);
  if (!asked_ && stop_asked_()) {
    asked_ = true;
    server_.ask_for_fence();
  }
  server_.step();
  note(lease, loss);
}

void LeaseLoop::note(const ps::Release& lease, double loss) {
  const double waited = server_.stats().wait_seconds;
  const double for_this = waited - std::exchange(waited_, waited);
  const auto samples = static_cast<double>(lease.end - lease.begin);
  const auto step = static_cast<std::int64_t>(lease.step);
  const bool counts = std::isfinite(loss);  // else servers skip the push, and count it
  tally_.add(step, counts ? loss : 0, counts ? samples : 0, for_this, run_.seconds());
  const auto fence = std::upper_bound(fences_.begin(), fences_.end(), shown_);
  const bool shows = step + 1 > shown_ && fence != fences_.end() && step + 1 < *fence;
  if (run_.is_first_rank() && counts && shows) show(step + 1, loss / samples, for_this);
}

// Steps up to `step`, as rank 0 sees them.
void LeaseLoop::show(std::int64_t step, double loss, double waited) {
  StepRecord record;
  record.step = step;
  record.epoch = (step - 1) / setup_.length.steps_per_epoch + 1;
  record.lr = learning_rate(run_.config(), setup_.length, step - 1);
  record.loss = loss;
  record.samples = samples_between(shown_, step);
  record.seconds = run_.seconds();
  record.step_seconds = record.seconds - shown_at_;
  record.comm_s = std::min(waited, record.step_seconds);
  shown_ = step;
  shown_at_ = record.seconds;
  run_.tell(&Observer::stepped, record);
}

std::int64_t LeaseLoop::samples_between(std::int64_t begin, std::int64_t end) const {
  std::size_t samples = 0;
  for (std::int64_t step = begin; step < end; ++step) {
    const auto per_epoch = setup_.length.steps_per_epoch;
    samples += setup_.batches->global_count(static_cast<std::uint64_t>(step / per_epoch),
                                            static_cast<std::size_t>(step % per_epoch));
  }
  return static_cast<std::int64_t>(samples);
}

void LeaseLoop::hold_fence(bool is_new) {
  sum_up();
  if (!is_new) return;
  if (run_.ends_epoch() || run_.step() == run_.last_step()) server_.check_equal();
  if (run_.due(run_.config().eval_every)) run_.test();
  if (run_.due(run_.config().checkpoint_every)) run_.save();
}

void LeaseLoop::sum_up() {
  std::vector<double> sums = tally_.sums(run_.step());
  sums.push_back(stop_asked_() ? 1 : 0);
  run_.control().all_reduce(buffer_of(std::span(sums))).or_throw();
  stopping_ = stopping_ || sums.back() > 0;
  sums.pop_back();
  if (logged_ >= run_.step()) return;  // before somebody was lost in this fence
  log_rows(sums);
  logged_ = run_.step();
}

void LeaseLoop::log_rows(const std::vector<double>& sums) {
  const std::vector<std::int64_t> last = tally_.last_steps(run_.step());
  const std::vector<double> ends = tally_.ends(run_.step(), run_.seconds());
  const auto workers = static_cast<double>(run_.control().size());
  StepRecord whole;
  for (std::size_t i = 0; i < last.size(); ++i) {
    StepRecord row;
    row.step = last[i];
    row.epoch = (row.step - 1) / setup_.length.steps_per_epoch + 1;
    row.lr = learning_rate(run_.config(), setup_.length, row.step - 1);
    row.loss = sums[3 * i] / sums[3 * i + 1];
    row.samples = samples_between(i == 0 ? logged_ : last[i - 1], row.step);
    row.seconds = ends[i];
    row.step_seconds = ends[i] - (i == 0 ? tally_.began() : ends[i - 1]);
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

void train_by_leases(Run& run, Job& job, const std::function<bool()>& stop_asked) {
  LeaseLoop(run, job, stop_asked).train();
}

}  // namespace asup::train
