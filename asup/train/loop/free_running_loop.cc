#include "asup/train/loop/free_running_loop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/data/own_part.h"
#include "asup/gossip/gossip_progress.h"
#include "asup/sync/averaging/local_update_replica.h"
#include "asup/train/loop/meetings.h"
#include "asup/train/loop/roll_call.h"
#include "asup/train/loop/round_clock.h"
#include "asup/train/loop/sample_count.h"
#include "asup/train/loop/sync_point_tally.h"
#include "asup/train/loop/train_step.h"
#include "asup/train/own_steps_strategy.h"
#include "asup/train/strategy.h"

namespace asup::train {
namespace {

// How long late workers are waited for. Where the loss decides when the way changes, as long as it
// takes: all must have seen the same losses.
Seconds patience_for(RunState& run) {
  const TrainConfig& config = run.config();
  const bool loss_decides =
      run.context().phase == Phase::first && has_phases(config) && config.at == "stall";
  return loss_decides ? Seconds(0) : patience_of(strategy_of(config));
}

using Place = Meetings::Place;

class OwnPaceLoop {
 public:
  OwnPaceLoop(RunState& run, Job& job, const std::function<bool()>& stop_asked);
  ~OwnPaceLoop();
  void train();
  TrainEnd conclude();

 private:
  void share_batch();
  void work();
  std::int64_t step_under_way() const;
  double compute(const data::OwnPart::Portion& portion, std::int64_t step, double lr);
  std::int64_t next_sync_point() const;
  double new_wait();
  void show(std::int64_t step, double loss);
  bool time_to_meet();
  bool come_together();
  void miss(std::uint64_t meeting);
  void forget_what_is_counted();
  std::int64_t meet();
  void meet_again();
  void hold_meeting();
  void merge_at_end();
  bool catch_up();
  void tell_all();
  std::int64_t step_reached() const;
  void hold_sync_point(std::int64_t step);
  void log_rows();
  std::int64_t own() const { return counts_[rank_]; }
  std::int64_t total() const;

  RunState& run_;
  TrainingContext& context_;
  const std::function<bool()>& stop_asked_;
  const std::size_t rank_;
  TrainStep train_step_;
  const SampleCount samples_;
  const std::vector<std::int64_t> sync_points_;  // steps
  data::OwnPart part_;
  RollCall workers_;
  gossip::GossipProgress progress_;
  Meetings meetings_;
  RoundClock clock_;

  std::vector<std::int64_t>
      counts_;                 // samples by worker: our own, the others' as of the last meeting
  std::int64_t known_ = 0;     // samples of all, by hearsay
  std::uint64_t meeting_ = 1;  // the next one
  bool whole_ = true;          // all came to the last one
  bool all_merged_ = true;     // in the last that this worker took part in
  bool missed_ = false;        // the last one took place without this worker
  bool merged_ = false;        // this worker has not stepped since
  std::size_t met_ = 0;        // workers in the last one
  bool lost_some_ = false;     // of all who were in it
  Clock::time_point began_;    // the one under way
  SyncPointTally tally_;
  double gathering_ = 0;      // seconds that this worker waited for others to come
  double waited_ = 0;         // of those and the replica's wait_seconds, told so far
  std::uint64_t merges_ = 0;  // of the replica's, told so far
  std::size_t batch_ = 0;     // this worker's part of one
  bool diverged_ = false;
  bool stopping_ = false;

  std::int64_t shown_ = 0;  // steps
  double shown_at_ = 0;
  std::int64_t logged_ = 0;       // steps
  std::int64_t held_ = 0;         // the last sync point, in steps
  std::int64_t held_by_all_ = 0;  // the same, of who has held fewest
  std::int64_t logged_by_all_ = 0;
};

OwnPaceLoop::OwnPaceLoop(RunState& run, Job& job, const std::function<bool()>& stop_asked)
    : run_(run),
      context_(run.context()),
      stop_asked_(stop_asked),
      rank_(static_cast<std::size_t>(job.rank())),
      train_step_(*context_.model, *context_.optimizer, *context_.replica, context_.path,
                  run.config(), run.hooks()),
      samples_(context_.length, *context_.batches),
      sync_points_(sync_points(run.config(), context_.length)),
      part_(context_.train->size(), static_cast<std::uint64_t>(run.config().seed), job.rank(),
            job.size()),
      workers_(run, job.rank()),
      progress_(net::workers_of(job)),
      meetings_(run, job, patience_for(run)),
      clock_(Seconds(run.config().round_seconds)),
      tally_(run.config().log_every),
      shown_(run.step()),
      logged_(run.step()),
      held_(run.step()) {
  share_batch();
  const auto workers = static_cast<std::size_t>(job.size());
  counts_ = run.samples_by_worker();
  if (counts_.size() == workers) return;
  // A run that was in step before, or had other workers: all have done alike.
  const std::int64_t done = counts_.empty() ? samples_.of(run.step()) : total();
  counts_.clear();
  for (std::size_t worker = 0; worker < workers; ++worker)
    counts_.push_back(static_cast<std::int64_t>(
        data::part_of(static_cast<std::size_t>(done), worker, workers).size()));
}

// Those who are left do, evenly.
void OwnPaceLoop::share_batch() {
  const std::vector<int>& left = workers_.left();
  const auto place = std::find(left.begin(), left.end(), static_cast<int>(rank_)) - left.begin();
  const auto batch =
      std::min(static_cast<std::size_t>(run_.config().batch), context_.train->size());
  batch_ = data::part_of(batch, static_cast<std::size_t>(place), left.size()).size();
}

OwnPaceLoop::~OwnPaceLoop() {
  if (auto* replica = context_.replica->local_updates()) replica->ask_before_taking({});
}

std::int64_t OwnPaceLoop::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

void OwnPaceLoop::train() {
  if (run_.step() >= run_.last_step()) return;
  workers_.meet(
      [&] {
        tell_all();  // nobody knows less than what was done before
        run_.control().barrier().or_throw();
        return static_cast<std::int64_t>(meeting_);
      },
      [&] { progress_.call_round(meeting_ + 1); });
  ++meeting_;
  if (auto* replica = context_.replica->local_updates())
    replica->ask_before_taking([&] { meetings_.agree(Place::merged); });
  tally_.begin(run_.step(), run_.seconds());
  shown_at_ = run_.seconds();
  do {
    clock_.begin_round();
    do work();
    while (!time_to_meet());
    if (!come_together()) continue;
    const auto held = static_cast<std::uint64_t>(
        workers_.meet([&] { return meet(); }, [&] { progress_.call_round(meeting_ + 1); }));
    share_batch();
    if (missed_ || held > meeting_) miss(held);
    if (!std::exchange(all_merged_, whole_) && whole_ && run_.is_first_rank())
      log().info("all workers merge again");
    forget_what_is_counted();
    meeting_ = held + 1;
  } while (run_.step() < run_.last_step() && !((stopping_ || run_.switches()) && whole_));
}

// Whether this worker takes part in the meeting that it has come to, or was too late for it. At the
// end of the run all are waited for.
bool OwnPaceLoop::come_together() {
  const bool is_last = stopping_ || stop_asked_() || known_ >= samples_.of(run_.last_step());
  const auto came = Clock::now();
  const auto without_it = meetings_.come(meeting_, workers_.left(), is_last);
  began_ = Clock::now();
  gathering_ += Seconds(began_ - came).count();
  if (without_it) miss(*without_it);
  return !without_it;
}

// The meetings up to this one took place without this worker.
void OwnPaceLoop::miss(std::uint64_t meeting) {
  workers_.missed(static_cast<std::int64_t>(meeting));
  meeting_ = meeting + 1;
  missed_ = true;
  whole_ = false;
  forget_what_is_counted();
  held_ = logged_;
  run_.set_step(held_);
}

// In rows that are written, perhaps of a sync point that was not held to its end.
void OwnPaceLoop::forget_what_is_counted() {
  if (tally_.first() < logged_) tally_.begin(logged_, run_.seconds());
}

// The number of the meeting that was held, by this worker or, where it has held it up, by others.
// One that is not done in time is given up by all who are in it, and they meet again.
std::int64_t OwnPaceLoop::meet() {
  while (true) {
    try {
      hold_meeting();
      return static_cast<std::int64_t>(meeting_);
    } catch (const JobFailed& error) {
      if (!meetings_.give_up(error)) throw;
    }
    meet_again();
    if (!come_together()) return static_cast<std::int64_t>(meeting_) - 1;
  }
}

// What all have agreed on stays: the merge, and the rows of a sync point.
void OwnPaceLoop::meet_again() {
  if (!merged_) gathering_ += seconds_since(began_);
  ++meeting_;
  forget_what_is_counted();
  run_.set_step(held_);
}

// Nobody leaves before all are done.
TrainEnd OwnPaceLoop::conclude() {
  TrainEnd end;
  meetings_.wait_as_long_as_it_takes();
  workers_.meet([&] {
    if (run_.must_merge() && context_.replica->models_differ()) context_.replica->synchronize();
    end = run_.conclude();
  });
  return end;
}

// A step, or what of one fits into the round, or is left of the epoch, which moves the model so
// much less.
void OwnPaceLoop::work() {
  const auto start = Clock::now();
  merged_ = false;
  const std::int64_t step = step_under_way();
  const auto portion = part_.next(static_cast<std::uint64_t>(own()), clock_.fit(batch_));
  const auto count = portion.indices.size();
  const double share = static_cast<double>(count) / static_cast<double>(batch_);
  const double lr = learning_rate(run_.config(), context_.length, step);
  const double loss = compute(portion, step, share * lr);
  counts_[rank_] += static_cast<std::int64_t>(count);
  if (std::isfinite(loss))
    tally_.add(step, loss, static_cast<double>(count), new_wait(), run_.seconds());
  else
    diverged_ = true;
  clock_.stepped(seconds_since(start), share);
  if (run_.is_first_rank() && step + 1 > shown_ && step + 1 < next_sync_point())
    show(step + 1, loss / static_cast<double>(count));
}

std::int64_t OwnPaceLoop::next_sync_point() const {
  return *std::upper_bound(sync_points_.begin(), sync_points_.end(), run_.step());
}

// As far as known. What comes after a sync point was reached, and before all meet, belongs to the
// last step before it.
std::int64_t OwnPaceLoop::step_under_way() const {
  return std::clamp(samples_.step_at(known_), run_.step(), next_sync_point() - 1);
}

double OwnPaceLoop::new_wait() {
  const double waited = gathering_ + context_.replica->stats().wait_seconds;
  return waited - std::exchange(waited_, waited);
}

double OwnPaceLoop::compute(const data::OwnPart::Portion& portion, std::int64_t step, double lr) {
  const std::size_t count = portion.indices.size();
  const double loss =
      train_step_.gradients(context_.train->get(portion.indices, portion.epoch),
                            1 / static_cast<double>(count), lr, run_.share_done(step));
  context_.replica->describe_batch(count, loss);
  if (std::isfinite(loss)) context_.replica->step();
  return loss;
}

// Steps up to `step`, as rank 0 sees them.
void OwnPaceLoop::show(std::int64_t step, double loss) {
  report::StepRecord record;
  record.step = step;
  record.epoch = (step - 1) / context_.length.steps_per_epoch + 1;
  record.lr = learning_rate(run_.config(), context_.length, step - 1);
  record.loss = loss;
  record.samples = samples_.of(step) - samples_.of(shown_);
  record.seconds = run_.seconds();
  record.step_seconds = record.seconds - shown_at_;
  shown_ = step;
  shown_at_ = record.seconds;
  run_.tell(&report::Observer::stepped, record);
}

bool OwnPaceLoop::time_to_meet() {
  const auto heard = progress_.tell(static_cast<std::uint64_t>(own()));
  known_ = static_cast<std::int64_t>(heard.samples);
  const bool now =
      known_ >= samples_.of(next_sync_point()) || diverged_ || stopping_ || stop_asked_();
  if (!now && !clock_.measured()) return false;  // the first round waits for a few steps of all
  if (heard.round >= meeting_) return true;
  if (!now && !clock_.over()) return false;
  progress_.call_round(meeting_);
  return true;
}

// In timed rounds, and where somebody was lost, one model; counts that all agree on; and, where
// they have come to one, a sync point.
void OwnPaceLoop::hold_meeting() {
  const bool is_new = catch_up();
  if (run_.config().round_seconds > 0 || lost_some_) {
    if (is_new) context_.replica->synchronize();
    merged_ = true;
  }
  meetings_.is_merged();
  if (held_ == run_.step() && logged_ == held_ && held_ < run_.last_step())
    tally_.add(step_under_way(), 0, 0, new_wait(), run_.seconds());
  tell_all();
  const std::int64_t step = step_reached();
  if (whole_ && (stopping_ || step == run_.last_step())) meetings_.wait_as_long_as_it_takes();
  if (step > held_by_all_) hold_sync_point(step);
  meetings_.agree(Place::ended);
  met_ = workers_.left().size();
}

void OwnPaceLoop::merge_at_end() {
  if (merged_ || !run_.must_merge()) return;
  context_.replica->synchronize();
  merged_ = true;
}

// Who was late goes on from the sync point that the others have held meanwhile. Whether there is
// anything to merge: where a meeting was given up after its merge, there is not, unless others have
// come.
bool OwnPaceLoop::catch_up() {
  whole_ = static_cast<std::size_t>(run_.control().size()) == workers_.left().size();
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
  std::array<std::int64_t, 5> most{static_cast<std::int64_t>(meeting_), missed_ ? 0 : logged_,
                                   missed_ ? kNone : -logged_, merged_ ? 0 : 1,
                                   workers_.left().size() < met_ ? 1 : 0};
  run_.control().all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  meeting_ = static_cast<std::uint64_t>(most[0]);
  logged_by_all_ = most[2] == kNone ? logged_ : -most[2];
  if (std::exchange(missed_, false) && most[1] > logged_) {
    held_ = logged_ = most[1];
    run_.set_step(held_);
    tally_.go_on_from(held_, run_.seconds());
  }
  lost_some_ = most[4] > 0;
  return most[3] > 0;
}

// The largest of what each says: of counts, each worker knows its own best, and those of the lost
// are what others heard last.
void OwnPaceLoop::tell_all() {
  std::vector<std::int64_t> figures = counts_;
  const gossip::ProgressVector heard = progress_.counts();
  for (std::size_t i = 0; i < counts_.size(); ++i)
    figures[i] =
        std::max(figures[i], static_cast<std::int64_t>(heard.samples(static_cast<int>(i))));
  figures.insert(figures.end(), {stop_asked_() ? 1 : 0, diverged_ ? 1 : 0,
                                 clock_.shortest_step().count(), -held_});
  run_.control().all_reduce(buffer_of(std::span(figures)), ReduceOp::max).or_throw();
  held_by_all_ = -figures.back();
  figures.pop_back();
  clock_.require_longer_than(std::chrono::nanoseconds(figures.back()));
  figures.pop_back();
  check(figures.back() == 0,
        "the loss became no number before step {}: training has diverged. A lower learning rate "
        "(lr is {:g}) or a warm-up may help.",
        samples_.step_at(known_) + 1, run_.config().lr);
  figures.pop_back();
  stopping_ = stopping_ || figures.back() > 0;
  figures.pop_back();
  counts_ = figures;
  gossip::ProgressVector counts(static_cast<int>(counts_.size()));
  for (std::size_t i = 0; i < counts_.size(); ++i)
    counts.set_samples(static_cast<int>(i), static_cast<std::uint64_t>(counts_[i]));
  progress_.learn(counts);
  known_ = total();
  run_.set_samples_by_worker(counts_);
}

// Steps that are done: up to the last sync point that all samples together reach; where the run
// stops, all. It ends with all workers, not without one that is late.
std::int64_t OwnPaceLoop::step_reached() const {
  std::int64_t step = run_.step();
  for (const std::int64_t sync_point : sync_points_)
    if (total() >= samples_.of(sync_point) && (whole_ || sync_point < run_.last_step()))
      step = std::max(step, sync_point);
  if (!stopping_ || !whole_) return step;
  const auto next = std::upper_bound(sync_points_.begin(), sync_points_.end(), step);
  if (next == sync_points_.end()) return step;
  return std::clamp(samples_.steps_for(total()), step, *next - 1);
}

// Where somebody is lost in it, or late, all hold it again, though some may have ended it.
void OwnPaceLoop::hold_sync_point(std::int64_t step) {
  run_.set_step(step);
  merge_at_end();
  log_rows();
  merge_at_end();  // the loss that was logged may say so
  const auto is_due = [&](const Every& every) { return run_.due(every, held_by_all_); };
  if ((is_due({Every::Kind::epoch}) || step == run_.last_step()) &&
      !context_.replica->models_differ())
    context_.replica->check_equal();
  if (is_due(run_.config().eval_every)) run_.test();
  if (is_due(run_.config().checkpoint_every)) run_.save();
  held_ = step;
}

void OwnPaceLoop::log_rows() {
  const std::int64_t step = run_.step();
  if (logged_by_all_ >= step) return;  // before somebody was late in this sync point
  std::vector<double> sums = tally_.sums(step);
  run_.control().all_reduce(buffer_of(std::span(sums))).or_throw();
  if (logged_ >= step) return;  // before somebody was lost in this sync point
  meetings_.agree(Place::counted);
  const std::vector<std::int64_t> last = tally_.last_steps(step);
  const std::vector<double> ends = tally_.ends(step, run_.seconds());
  const ReplicaStats stats = context_.replica->stats();
  const auto workers = static_cast<double>(run_.control().size());
  report::StepRecord whole;
  double began = tally_.began();
  // Known counts may go over steps, which then are in the next row, or at the sync point in the
  // last.
  const auto samples_of = [&](std::size_t row) { return sums[3 * row + 1]; };
  std::size_t final = last.size() - 1;
  while (final > 0 && samples_of(final) == 0) --final;
  for (std::size_t i = 0; i <= final; ++i) {
    const double samples = samples_of(i);
    if (samples == 0) continue;
    const std::size_t end = i == final ? last.size() - 1 : i;
    report::StepRecord row;
    row.step = last[end];
    row.epoch = (row.step - 1) / context_.length.steps_per_epoch + 1;
    row.lr = learning_rate(run_.config(), context_.length, row.step - 1);
    row.loss = sums[3 * i] / samples;
    row.samples = std::llround(samples);
    row.seconds = ends[end];
    row.step_seconds = ends[end] - std::exchange(began, ends[end]);
    row.comm_s = std::min(sums[3 * i + 2] / workers, row.step_seconds);
    if (i == final) {
      row.merges = static_cast<std::int64_t>(stats.merges - std::exchange(merges_, stats.merges));
      row.consensus_distance = stats.consensus_distance;
    }
    run_.log(row);
    whole.samples == 0 ? void(whole = row) : whole.add(row);
  }
  run_.totals().train_seconds += whole.step_seconds;
  run_.totals().comm_s += whole.comm_s;
  run_.totals().samples += whole.samples;
  if (run_.is_first_rank() && step > shown_) show(step, whole.loss);
  logged_ = step;
}

}  // namespace

TrainEnd train_at_own_pace(RunState& run, Job& job, const std::function<bool()>& stop_asked) {
  OwnPaceLoop loop(run, job, stop_asked);
  loop.train();
  return loop.conclude();
}

}  // namespace asup::train
