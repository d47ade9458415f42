#include "asup/train/trainer.h"

#include <sys/resource.h>

#include <cmath>
#include <filesystem>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/data/prefetch.h"
#include "asup/train/evaluate.h"
#include "asup/train/metrics_file.h"
#include "asup/train/report.h"
#include "asup/train/run_folder.h"
#include "asup/train/settings.h"
#include "asup/train/setup.h"
#include "asup/train/stepper.h"
#include "asup/train/tally.h"
#include "asup/train/tensor_pack.h"

namespace asup::train {
namespace {

std::uint64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // ru_maxrss counts kilobytes
}

class Trainer {
 public:
  Trainer(Job& job, const TrainConfig& config, Observer& display,
          const std::function<bool()>& stop_asked);
  TrainEnd run();

 private:
  void begin_folder();
  void run_epoch();
  void run_step(const data::Batch& batch);
  void after_step();
  void collect();
  void flush_log();
  void test();
  void save();
  void end();
  Summary summarise();

  bool due(const Every& every) const;
  double seconds() const { return totals_.seconds + seconds_since(began_); }
  std::uint64_t sum_over_ranks(std::uint64_t value, ReduceOp op = ReduceOp::sum);
  CheckpointInfo checkpoint_info();
  template <typename... Parameters, typename... Args>
  void tell(void (Observer::*event)(Parameters...), const Args&... args);

  // Constant after construction.
  const TrainConfig config_;
  const std::function<bool()>& stop_asked_;
  const bool first_rank_;
  const RunFolder folder_;
  Setup setup_;
  std::int64_t last_step_;  // of this call

  Stepper stepper_;
  Tally tally_;
  std::vector<Observer*> observers_;
  std::unique_ptr<Observer> metrics_;

  std::int64_t step_ = 0;  // done
  bool stopping_ = false;
  double waited_ = 0;               // of the replica's wait_seconds, told so far
  StepRecord pending_;              // the last step, without what the tally brings
  StepRecord interval_;             // since the last row of metrics
  double last_loss_ = 0;            // in the last row
  std::optional<EvalRecord> test_;  // the last one
  std::string checkpoint_;          // the last one's name
  std::int64_t checkpoint_step_ = -1;
  Totals totals_;  // of earlier calls; train_seconds, comm_s and samples of this one too
  const Clock::time_point began_ = Clock::now();
};

Trainer::Trainer(Job& job, const TrainConfig& config, Observer& display,
                 const std::function<bool()>& stop_asked)
    : config_(config),
      stop_asked_(stop_asked),
      first_rank_(job.rank() == 0),
      folder_(config.out),
      setup_(set_up(job, config)),
      last_step_(config.stop_at > 0 ? std::min(config.stop_at, setup_.length.steps)
                                    : setup_.length.steps),
      stepper_(*setup_.model, *setup_.optimizer, *setup_.replica, setup_.path, job.size(),
               config.accumulate),
      tally_(*setup_.control) {
  if (first_rank_) observers_.push_back(&display);
  if (!setup_.resumed) return;
  step_ = setup_.resumed->step;
  totals_ = setup_.resumed->totals;
  if (config.out != config.resume) return;  // the checkpoint is in the other folder
  checkpoint_ = std::filesystem::path(folder_.checkpoint_file(step_)).filename().string();
  checkpoint_step_ = step_;
}

template <typename... Parameters, typename... Args>
void Trainer::tell(void (Observer::*event)(Parameters...), const Args&... args) {
  for (Observer* observer : observers_) (observer->*event)(args...);
}

// Rank 0's disk; the others have nothing to write.
void Trainer::begin_folder() {
  if (!first_rank_) return;
  const bool in_place = setup_.resumed && std::filesystem::exists(folder_.path()) &&
                        std::filesystem::equivalent(config_.resume, folder_.path());
  if (!in_place) folder_.create();
  if (setup_.resumed) {
    keep_metrics(RunFolder(config_.resume).metrics_file(), folder_.metrics_file(), step_);
    for (const auto& row : read_metrics(folder_.metrics_file()))
      last_loss_ = row.value("loss", last_loss_);
  }
  // What is there tells of the run as it was, until this call ends too.
  std::filesystem::remove(folder_.summary_file());
  std::filesystem::remove(folder_.report_file());
  write_atomically(folder_.config_file(), to_toml(config_));
  write_atomically(folder_.choices_file(), to_json(setup_.choices).dump(1) + "\n");
  metrics_ = make_metrics_writer(folder_.metrics_file());
  observers_.push_back(metrics_.get());
}

TrainEnd Trainer::run() {
  begin_folder();
  tell(&Observer::started, setup_.facts);
  while (step_ < last_step_ && !stopping_) run_epoch();
  end();
  TrainEnd result{summarise(), step_ < setup_.length.steps};
  if (first_rank_) {
    write_atomically(folder_.choices_file(), to_json(setup_.choices).dump(1) + "\n");
    write_atomically(folder_.summary_file(), to_json(result.summary).dump(1) + "\n");
    write_report(folder_.path());
  }
  tell(&Observer::ended, result.summary);
  setup_.control->barrier().or_throw();  // nobody leaves before the run is told
  return result;
}

void Trainer::run_epoch() {
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  data::Prefetcher ahead(*setup_.train, *setup_.batches,
                         static_cast<std::uint64_t>(step_ / per_epoch),
                         static_cast<std::size_t>(step_ % per_epoch));
  while (step_ < last_step_ && !stopping_) {
    const auto start = Clock::now();
    const auto batch = ahead.next();
    if (!batch) return;
    run_step(*batch);
    const double took = seconds_since(start);
    pending_.step_seconds = took;
    pending_.seconds = seconds();
    totals_.train_seconds += took;
    after_step();
  }
}

void Trainer::run_step(const data::Batch& batch) {
  const std::int64_t per_epoch = setup_.length.steps_per_epoch;
  const auto samples = setup_.batches->global_count(static_cast<std::uint64_t>(step_ / per_epoch),
                                                    static_cast<std::size_t>(step_ % per_epoch));
  const double lr = learning_rate(config_, setup_.length, step_);
  const double loss = stepper_.step(batch, samples, lr);
  collect();  // the step before; it travelled beside this one
  ++step_;
  pending_ = {};
  pending_.step = step_;
  pending_.epoch = (step_ - 1) / per_epoch + 1;
  pending_.lr = lr;
  pending_.samples = static_cast<std::int64_t>(samples);

  const double waited = setup_.replica->stats().wait_seconds;
  tally_.start({loss, static_cast<double>(batch.input.size(0)), waited - waited_,
                stop_asked_() ? 1.0 : 0.0});
  waited_ = waited;
}

void Trainer::after_step() {
  const bool ends_epoch = step_ % setup_.length.steps_per_epoch == 0;
  if (ends_epoch || step_ == last_step_) {
    collect();
    setup_.replica->check_equal();
  }
  if (due(config_.eval_every)) test();
  if (due(config_.checkpoint_every)) save();
}

bool Trainer::due(const Every& every) const {
  if (every.kind == Every::Kind::epoch) return step_ % setup_.length.steps_per_epoch == 0;
  return every.kind == Every::Kind::steps && step_ % every.steps == 0;
}

// Takes in what all ranks say of the step before.
void Trainer::collect() {
  const auto figures = tally_.collect();
  if (!figures) return;
  pending_.loss = figures->loss / figures->samples;
  pending_.comm_s = figures->wait_seconds / setup_.control->size();
  stopping_ = stopping_ || figures->stops > 0;
  totals_.comm_s += pending_.comm_s;
  totals_.samples += pending_.samples;
  check(std::isfinite(pending_.loss),
        "the loss became {} in step {}: training has diverged. A lower learning rate (lr is {:g}) "
        "or a warm-up may help.",
        pending_.loss, pending_.step, pending_.lr);
  interval_.samples == 0 ? void(interval_ = pending_) : interval_.add(pending_);
  tell(&Observer::stepped, pending_);
  if (pending_.step % config_.log_every == 0) flush_log();
}

void Trainer::flush_log() {
  if (interval_.samples == 0) return;
  last_loss_ = interval_.loss;
  tell(&Observer::logged, interval_);
  interval_ = {};
}

// Testing changes nothing: statistics are averaged for it and then put back, so that how often a
// run tests has no influence on its weights.
void Trainer::test() {
  collect();
  const auto start = Clock::now();
  const auto buffers = sync::buffers_of(*setup_.model);
  const std::string before = pack_tensors(buffers);
  tell(&Observer::evaluating, static_cast<std::int64_t>(setup_.test->size()));
  setup_.replica->average_buffers();
  const auto at_once = std::max(config_.workers, config_.batch / config_.accumulate);
  const Evaluation evaluation =
      evaluate(*setup_.control, *setup_.model, *setup_.test, setup_.path, at_once);
  unpack_tensors(before, buffers);

  test_ = EvalRecord{step_,
                     (step_ + setup_.length.steps_per_epoch - 1) / setup_.length.steps_per_epoch,
                     evaluation.loss,
                     evaluation.accuracy,
                     evaluation.samples,
                     seconds_since(start),
                     seconds()};
  if (first_rank_) {
    write_atomically(folder_.evaluation_file(),
                     describe_evaluation(evaluation, *setup_.test).dump() + "\n");
  }
  flush_log();
  tell(&Observer::evaluated, *test_);
}

CheckpointInfo Trainer::checkpoint_info() {
  CheckpointInfo info;
  info.step = step_;
  info.ranks = config_.workers;
  info.config = config_;
  setup_.choices.learned = setup_.replica->learned();
  info.choices = setup_.choices;
  info.totals = totals_;
  info.totals.seconds = seconds();
  info.totals.bytes_sent +=
      sum_over_ranks(setup_.control->bytes_moved() + setup_.gradients->bytes_moved());
  return info;
}

void Trainer::save() {
  collect();
  const std::string path = folder_.checkpoint_file(step_);
  save_checkpoint(*setup_.control, path, checkpoint_info(), *setup_.model, *setup_.optimizer);
  checkpoint_ = std::filesystem::path(path).filename().string();
  checkpoint_step_ = step_;
  if (!first_rank_) return;
  folder_.keep_checkpoints(config_.keep_checkpoints);
  tell(&Observer::checkpointed, path);
}

// What is left to do when no step follows. A run that was stopped is not tested: it goes on.
void Trainer::end() {
  collect();
  const bool finished = step_ >= setup_.length.steps;
  if (finished && (!test_ || test_->step != step_)) test();
  flush_log();
  const bool wanted = config_.checkpoint_every.kind != Every::Kind::never;
  if (wanted && checkpoint_step_ != step_) save();
}

Summary Trainer::summarise() {
  Summary summary;
  summary.facts = setup_.facts;
  summary.finished = step_ >= setup_.length.steps;
  summary.step = step_;
  summary.test = test_;
  summary.final_loss = last_loss_;
  const CheckpointInfo info = checkpoint_info();
  summary.seconds = info.totals.seconds;
  summary.train_seconds = info.totals.train_seconds;
  summary.comm_s = info.totals.comm_s;
  summary.samples = info.totals.samples;
  summary.bytes_sent = info.totals.bytes_sent;
  summary.peak_memory_bytes = sum_over_ranks(peak_memory());
  summary.peak_memory_bytes_max = sum_over_ranks(peak_memory(), ReduceOp::max);
  // The weights to use: with statistics that all ranks share.
  setup_.replica->average_buffers();
  summary.weights_sha256 = weights_sha256(*setup_.model);
  summary.checkpoint = checkpoint_;
  return summary;
}

std::uint64_t Trainer::sum_over_ranks(std::uint64_t value, ReduceOp op) {
  auto sum = static_cast<std::int64_t>(value);
  setup_.control->all_reduce(buffer_of(std::span(&sum, 1)), op).or_throw();
  return static_cast<std::uint64_t>(sum);
}

}  // namespace

TrainEnd train(Job& job, const TrainConfig& config, Observer& display,
               const std::function<bool()>& stop_asked) {
  check(config.workers == job.size(), "a configuration for {} workers in a job of {}",
        config.workers, job.size());
  return Trainer(job, config, display, stop_asked).run();
}

}  // namespace asup::train
