#include "asup/train/loop/own_pace.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "asup/base/log.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup::train {
namespace {

// How long late workers are waited for. Where the loss decides when the strategy switches, or tests
// when the run ends and what it keeps, as long as it takes: all must have seen the same ones.
Seconds patience_for(RunState& run) {
  const TrainConfig& config = run.config();
  const bool loss_decides =
      run.context().phase == Phase::first && has_phases(config) && config.at == "stall";
  const bool tests_decide = config.patience || config.keep_best;
  return loss_decides || tests_decide ? Seconds(0) : config.strategy.capabilities().merge_deadline;
}

}  // namespace

OwnPace::OwnPace(RunState& run, Job& job, std::function<std::vector<int>()> left)
    : run_(run),
      context_(run.context()),
      left_(std::move(left)),
      rank_(static_cast<std::size_t>(job.rank())),
      samples_(context_.length, *context_.batches),
      sync_points_(sync_points(run.config(), context_.length)),
      own_(run, job, sync_points_),
      progress_(net::workers_of(job)),
      rounds_(run, job, patience_for(run)),
      clock_(run.config().strategy.capabilities().round) {
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

OwnPace::~OwnPace() {
  if (auto* replica = context_.local) replica->ask_before_taking({});
}

WorkSource::Traits OwnPace::traits() const {
  return {.skips_non_finite = run_.config().strategy.capabilities().skips_non_finite,
          .rows_may_be_empty = true};
}

// Those who are left do, evenly.
void OwnPace::share_batch() {
  const std::vector<int> left = left_();
  const auto place = std::find(left.begin(), left.end(), static_cast<int>(rank_)) - left.begin();
  const auto batch =
      std::min(static_cast<std::size_t>(run_.config().batch), context_.train->size());
  own_.set_part(data::part_of(batch, static_cast<std::size_t>(place), left.size()).size());
}

std::int64_t OwnPace::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
}

void OwnPace::begin() {
  agree_on_counts();  // nobody knows less than what was done before
  counts_before_ = counts_;
  own_.begin(left_().front(), static_cast<std::uint64_t>(total()));
  run_.control().barrier().or_throw();
  if (auto* replica = context_.local)
    replica->ask_before_taking([this] { rounds_.agree(QuorumRounds::Milestone::merged); });
  clock_.begin_round();
}

// A step, or what of one fits into the round, or is left before the sync point, which moves the
// model so much less. It is empty where others have taken all since the last sync point.
StepWork OwnPace::next() {
  step_began_ = Clock::now();
  merged_ = false;
  own_.find(clock_.fit(own_.part()));
  OwnSamples::Step step = own_.read(comes_ ? 0 : clock_.steps_ahead());
  const auto count = static_cast<double>(step.samples);
  share_ = count / static_cast<double>(own_.part());
  StepWork work;
  work.step = step.number;
  work.batch = std::move(step.batch);
  work.weight = 1 / std::max(count, 1.0);
  work.lr = share_ * learning_rate(run_.config(), context_.length, work.step);
  return work;
}

void OwnPace::computed(const StepOutcome& outcome) { counts_[rank_] += outcome.samples; }

void OwnPace::stepped(double) {
  clock_.stepped(seconds_since(step_began_), share_);
  own_.finish();
  has_stepped_ = true;
}

// What this worker has it does first, and others are called meanwhile.
bool OwnPace::sync_point_due(const StopRequest& stop) {
  if (!has_stepped_ || run_.step() >= run_.last_step()) return false;
  const auto heard = progress_.tell(static_cast<std::uint64_t>(counts_[rank_]));
  const bool called = heard.round >= next_round_;
  const bool ends = clock_.measured() && (called || clock_.over());  // after a few steps of all
  comes_ = comes_ || ends || stop.asked || stop.agreed;
  if (!comes_ && own_.find(clock_.fit(own_.part()))) return false;
  if (!called) progress_.call_round(next_round_);
  return !own_.find_last();
}

// At the end of the run all are waited for.
bool OwnPace::come(const StopRequest& stop) {
  came_ = Clock::now();
  has_stepped_ = false;
  comes_ = false;
  if (std::exchange(together_, false)) return true;
  const auto all_dealt = static_cast<std::int64_t>(own_.dealt()) >= samples_.of(run_.last_step());
  const bool is_last = stop.asked || stop.agreed || all_dealt;
  const auto without_it = rounds_.come(next_round_, left_(), is_last);
  gathering_ += seconds_since(came_);
  came_ = Clock::now();
  if (!without_it) return true;
  next_round_ = *without_it + 1;
  missed_ = true;
  whole_ = false;
  clock_.begin_round();
  return false;
}

WorkSource::SyncPoint OwnPace::reach(bool stops) {
  step_before_ = run_.step();
  whole_ = static_cast<std::size_t>(run_.control().size()) == left_().size();
  // Where a round was given up after its merge, there is none to be made again, unless others
  // have come.
  const bool wants_merge = !merged_ && (clock_.over() || missed_ || must_merge_);
  std::array<std::int64_t, 3> most{static_cast<std::int64_t>(next_round_), wants_merge ? 1 : 0,
                                   static_cast<std::int64_t>(own_.dealt())};
  run_.control().all_reduce(buffer_of(std::span(most)), ReduceOp::max).or_throw();
  next_round_ = static_cast<std::uint64_t>(most[0]);
  ends_round_ = ends_round_ || most[1] > 0;
  missed_ = false;
  reached_ = static_cast<std::uint64_t>(most[2]);  // those who are here have nothing any more
  agree_on_counts();
  keep_counts();
  const std::int64_t step = step_reached(stops);
  if (whole_ && (stops || step == run_.last_step())) rounds_.wait_as_long_as_it_takes();
  return {step, most[1] > 0, whole_};
}

// The largest of what each says: of counts, each worker knows its own best, and the one that deals
// those of the lost.
void OwnPace::agree_on_counts() {
  std::vector<std::int64_t> figures = counts_;
  const gossip::ProgressVector heard = progress_.counts();
  const std::vector<std::uint64_t> finished = own_.finished();
  for (std::size_t i = 0; i < counts_.size(); ++i)
    figures[i] =
        std::max({figures[i], static_cast<std::int64_t>(heard.samples(static_cast<int>(i))),
                  (counts_before_.empty() ? 0 : counts_before_[i]) +
                      static_cast<std::int64_t>(finished[i])});
  figures.push_back(clock_.shortest_step().count());
  run_.control().all_reduce(buffer_of(std::span(figures)), ReduceOp::max).or_throw();
  clock_.require_longer_than(std::chrono::nanoseconds(figures.back()));
  figures.pop_back();
  counts_ = figures;
  gossip::ProgressVector counts(static_cast<int>(counts_.size()));
  for (std::size_t i = 0; i < counts_.size(); ++i)
    counts.set_samples(static_cast<int>(i), static_cast<std::uint64_t>(counts_[i]));
  progress_.learn(counts);
}

// For a checkpoint: together they are the place to go on from, also where a late worker has yet to
// do some, or others have done again what a lost one did.
void OwnPace::keep_counts() {
  std::vector<std::int64_t> counts = counts_;
  std::int64_t missing = static_cast<std::int64_t>(reached_) - total();
  for (std::int64_t& count : counts) {
    const std::int64_t more = std::max(missing, -count);
    count += more;
    missing -= more;
  }
  run_.set_samples_by_worker(std::move(counts));
}

// Steps that are done: up to the last sync point before which all samples are; where the run stops,
// all. It ends with all workers, not without one that is late.
std::int64_t OwnPace::step_reached(bool stops) const {
  std::int64_t step = run_.step();
  const auto reached = static_cast<std::int64_t>(reached_);
  for (const std::int64_t sync_point : sync_points_)
    if (reached >= samples_.of(sync_point) && (whole_ || sync_point < run_.last_step()))
      step = std::max(step, sync_point);
  if (!stops || !whole_) return step;
  const auto next = std::upper_bound(sync_points_.begin(), sync_points_.end(), step);
  if (next == sync_points_.end()) return step;
  return std::clamp(samples_.steps_for(reached), step, *next - 1);
}

void OwnPace::past_merge() {
  merged_ = true;
  rounds_.is_merged();
}

void OwnPace::end_sync_point() {
  rounds_.agree(QuorumRounds::Milestone::ended);
  ++next_round_;
  // Said when it is done: one whose link is slow may come to a merge and hold it up again.
  if (!std::exchange(ended_whole_, whole_) && whole_ && run_.is_first_rank())
    log().info("all workers merge again");
  must_merge_ = false;
  own_.met(reached_);
  share_batch();
  std::exchange(ends_round_, false) ? clock_.begin_round() : clock_.leave_out(came_);
}

// One that is not done in time is given up by all who are in it, and they meet again. What all have
// agreed on stays: the merge, and the sums.
bool OwnPace::gives_up(const JobFailed& error) {
  if (!rounds_.give_up(error)) return false;
  if (!merged_) gathering_ += seconds_since(came_);
  ++next_round_;
  run_.set_step(step_before_);
  return true;
}

void OwnPace::regroup() {
  together_ = true;
  must_merge_ = true;
  merged_ = false;
  const std::vector<int> left = left_();
  if (left.front() != own_.dealer()) {
    counts_before_ = counts_;
    return own_.begin_anew(left.front());
  }
  for (int worker = 0; worker < static_cast<int>(counts_.size()); ++worker)
    if (std::find(left.begin(), left.end(), worker) == left.end()) own_.lose(worker);
}

}  // namespace asup::train
