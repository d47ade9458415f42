#include "asup/train/state/run_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/log.h"
#include "asup/distribute/recorded_timeline.h"
#include "asup/distribute/strategy.h"
#include "asup/parallel/cut/cut_file.h"
#include "asup/report/event_file.h"
#include "asup/report/metrics_file.h"
#include "asup/report/read_run.h"
#include "asup/report/report.h"
#include "asup/report/tensorboard.h"
#include "asup/sync/model/agreement.h"
#include "asup/train/batch_schedule.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/settings.h"
#include "asup/train/state/generation.h"
#include "asup/train/state/switch_strategy.h"

namespace asup::train {
namespace {

// By workers that do not write them: as many as the one that does may not have written yet.
constexpr std::size_t kRowsToKeep = 1000;

}  // namespace

RunState::RunState(Job& job, const TrainConfig& config, report::Observer& display, StepHooks& hooks,
                   RecordedTimeline* timeline)
    : rank_(job.rank()),
      folder_(config.out),
      display_(display),
      hooks_(hooks),
      timeline_(timeline),
      config_(config),
      context_(make_context(job, config, hooks)),
      switch_step_(train::switch_step(config, context_.length)),
      roster_(job.roster()),
      who_(job.roster().members[static_cast<std::size_t>(rank_)].describe()),
      first_rank_(rank_ == 0) {
  if (first_rank_) observers_.push_back(&display);
  if (config.rebalance && context_.spread) stages_.emplace(context_.spread->stats());
  if (!context_.resumed) return;
  step_ = context_.resumed->step;
  totals_ = context_.resumed->totals;
  stall_ = context_.resumed->stall;
  best_ = context_.resumed->best;
  samples_by_worker_ = context_.resumed->samples_by_worker;
  forget_own_counts();
  if (config.out != config.resume) return;  // the checkpoint is in the other folder
  checkpoint_ = std::filesystem::path(folder_.series().path(step_)).filename().string();
  checkpoint_step_ = step_;
}

bool RunState::resumes_in_place() const {
  return context_.resumed && std::filesystem::exists(folder_.path()) &&
         std::filesystem::equivalent(config_.resume, folder_.path());
}

// One that was killed between its last checkpoint and its summary has yet to end.
std::optional<report::Summary> RunState::finished_before() const try {
  if (!first_rank_ || !resumes_in_place()) return std::nullopt;
  if (!std::filesystem::exists(folder_.summary_file())) return std::nullopt;
  report::Summary summary = report::read_run(folder_.path()).summary;
  const bool ended = summary.step >= context_.length.steps || (summary.ended_early && ends_early());
  return summary.finished && ended ? std::optional(std::move(summary)) : std::nullopt;
} catch (const BadInput&) {
  return std::nullopt;  // its summary cannot be read
}

// Rank 0's disk; the others have nothing to write.
void RunState::begin(bool begun) {
  if (!first_rank_) return;
  if (!resumes_in_place() && !begun) context_.facts.moved_to = folder_.create().value_or("");
  lock_ = folder_.lock(who_);
  if (!begun) check_still_as_found();
  folder_.remove_leftovers();
  if (resumes_in_place())
    for (const std::string& checkpoint : context_.damaged) folder_.series().set_aside(checkpoint);
  const report::RunFolder before(context_.resumed ? config_.resume : folder_.path());
  report::keep_metrics(before.metrics_file(), folder_.metrics_file(), step_);
  if (context_.resumed && !resumes_in_place())
    report::copy_event_files(before.path(), folder_.path());
  for (const auto& row : report::read_metrics(folder_.metrics_file()))
    if (row.contains("loss") && row["loss"].is_number()) last_loss_ = row["loss"];
  // What is there tells of the run as it was, until this call ends too.
  std::filesystem::remove(folder_.summary_file());
  std::filesystem::remove(folder_.report_file());
  std::filesystem::remove(folder_.failure_file());
  std::filesystem::remove(folder_.model_file());
  std::filesystem::remove(folder_.generated_file());
  std::filesystem::remove(folder_.timeline_file());
  write_atomically(folder_.config_file(), to_toml(config_));
  write_atomically(folder_.choices_file(), to_json(context_.choices).dump(1) + "\n");
  write_layers();
  write_atomically(folder_.facts_file(), report::to_json(context_.facts).dump(1) + "\n");
  if (const data::Text* text = context_.train->text(); text && !text->tokenizer->model().empty())
    write_atomically(folder_.tokenizer_file(), text->tokenizer->model());
  open_files(step_ + 1);
  tell(&report::Observer::started, context_.facts);
}

void RunState::write_layers() const {
  const auto& layers = context_.choices.layers;
  if (layers)
    write_atomically(folder_.layers_file(), parallel::to_json(*layers).dump(1) + "\n");
  else
    std::filesystem::remove(folder_.layers_file());
}

// Whoever had the lock before may have begun a run here, or gone on with the one that this process
// read before it had the lock.
void RunState::check_still_as_found() const {
  if (!resumes_in_place()) {
    require(!std::filesystem::exists(folder_.config_file()),
            "{}: another run has just begun there; give another folder (--out)", folder_.path());
    return;
  }
  std::vector<std::string> checkpoints = folder_.series().list();
  std::erase_if(checkpoints, [&](const std::string& path) {
    return std::ranges::any_of(context_.damaged, [&](const std::string& damaged) {
      return std::filesystem::equivalent(path, damaged);
    });
  });
  require(!checkpoints.empty() && checkpoints.back() == folder_.series().path(step_),
          "{}: another process has just gone on with this run, beyond step {}: resume it again",
          folder_.path(), step_);
}

// TensorBoard is told before metrics.jsonl: whatever is in a row there, it has been told.
void RunState::open_files(std::int64_t first_step) {
  observers_.clear();
  if (config_.tensorboard) {
    tensorboard_ = report::make_tensorboard_writer(folder_.path(), first_step);
    observers_.push_back(tensorboard_.get());
  }
  metrics_ = report::make_metrics_writer(folder_.metrics_file());
  observers_.push_back(metrics_.get());
  observers_.push_back(&display_);  // files first: displays may read them
}

bool RunState::sees_folder() const { return train::sees_folder(config_); }

// The others, who are gone, have come further than this worker.
bool RunState::has_ended_without_this() const try {
  return std::filesystem::exists(folder_.summary_file()) &&
         report::read_run(folder_.path()).summary.step > step_;
} catch (const BadInput&) {
  return false;
}

// Rows that only the lost one knew of are taken back, since they will be told again; rows that it
// did not write any more are written. A test may have been told to TensorBoard alone, and takes the
// rows of its step along when it is told again.
void RunState::keep_folder() {
  first_rank_ = true;
  lock_ = folder_.lock(who_);
  if (has_ended_without_this())
    throw JobFailed(
        fmt::format("the run has ended without {}: {} stays as it is", who_, folder_.path()));
  std::filesystem::remove(folder_.failure_file());  // of one that was cut off
  const std::string path = folder_.metrics_file();
  const std::int64_t first = context_.resumed ? context_.resumed->step : 0;
  report::keep_metrics(path, path, logged_.empty() ? first : logged_.back().step);
  std::int64_t written = first, tested = first, validated = first;
  for (const auto& row : report::read_metrics(path)) {
    const auto step = row.at("step").get<std::int64_t>();
    (row.contains("loss") ? written : row.contains("test_loss") ? tested : validated) = step;
  }
  std::vector<report::EvalRecord> tests;
  if (validation_ && validation_->step > validated) tests.push_back(*validation_);
  if (test_ && test_->step > tested) tests.push_back(*test_);
  std::int64_t again = written + 1;
  for (const report::EvalRecord& each : tests) again = std::min(again, each.step);
  open_files(again);
  display_.started(context_.facts);
  for (const report::StepRecord& row : logged_) {
    if (row.step > written)
      tell(&report::Observer::logged, row);
    else if (row.step >= again && tensorboard_)
      tensorboard_->logged(row);
  }
  for (const report::EvalRecord& each : tests) tell(&report::Observer::evaluated, each);
}

std::string RunState::keep_server_report() {
  const std::string report = context_.server->report();
  write_atomically(folder_.server_file(), report + "\n");
  tell(&report::Observer::servers_reported, step_, report);
  return report;
}

void RunState::lose(const std::vector<int>& ranks) {
  for (const int rank : ranks)
    lost_.push_back(first_rank_of(roster_.members[static_cast<std::size_t>(rank)]));
}

void RunState::failed(const std::string& why) {
  if (!metrics_) return;  // others keep the folder, or it is not begun
  if (timeline_) timeline_->write_own();
  try {
    write_atomically(folder_.failure_file(), why + "\n");
    report::write_report(folder_.path());
  } catch (const std::exception& error) {  // the failure itself is what counts
    asup::log().warn("{}", error.what());
  }
  tell(&report::Observer::failed, why);
}

std::int64_t RunState::epoch() const {
  return (step_ + context_.length.steps_per_epoch - 1) / context_.length.steps_per_epoch;
}

std::int64_t RunState::last_step_of(const TrainConfig& config) const {
  const std::int64_t steps = context_.length.steps;
  return Updates(config, context_.length).end(std::min(config.stop_at.value_or(steps), steps));
}

bool RunState::switches() const {
  if (!has_phases(config_) || context_.phase != Phase::first || step_ >= last_step_of(config_) ||
      ends_early())
    return false;
  return switch_step_ ? step_ >= *switch_step_ : stall_.stalled();
}

bool RunState::must_merge() const { return is_finished() || switches(); }

// Another way begins with all workers of the job: where some were lost, those who are left begin a
// next generation from here.
void RunState::require_all_workers() {
  if (control().size() == config_.workers) return;
  if (wants_last_checkpoint()) save();
  throw PeerLost(
      fmt::format("{} of {} workers are left after step {}, where the run changes to sync = {}",
                  control().size(), config_.workers, step_, config_.then->name()));
}

// From here on the run is as one that was told so at its start: in checkpoints, in its summary.
void RunState::go_on_by(const Strategy& strategy) {
  config_.then = strategy;
  config_.at = std::to_string(step_);
  config_.balance = can_balance(strategy);
  context_.facts.then = strategy.name();
  switch_step_ = step_;
  write_way();
}

void RunState::stay() {
  if (!config_.then) return;
  const TrainConfig usual;
  config_.then.reset();
  config_.at = usual.at;
  config_.balance = usual.balance;
  context_.facts.then.clear();
  switch_step_.reset();
  write_way();
}

void RunState::write_way() {
  if (!first_rank_) return;
  write_atomically(folder_.config_file(), to_toml(config_));
  write_atomically(folder_.facts_file(), report::to_json(context_.facts).dump(1) + "\n");
}

void RunState::switch_strategy(Job& job) {
  require_all_workers();
  totals_.bytes_sent += sum_over_ranks(bytes_moved());
  train::switch_strategy(context_, job, config_, step_);
  forget_own_counts();
  tell(&report::Observer::switched_strategy, step_, config().strategy.name());
}

// In step, they would become wrong.
void RunState::forget_own_counts() {
  const Capabilities now = config().strategy.capabilities();
  if (now.lockstep || now.leases_samples) samples_by_worker_.clear();
}

bool RunState::due(const Every& every, std::int64_t after) const {
  const auto is_passed = [&](std::int64_t steps) { return step_ / steps > after / steps; };
  if (every.kind == Every::Kind::epoch) return is_passed(context_.length.steps_per_epoch);
  return every.kind == Every::Kind::steps && is_passed(every.steps);
}

void RunState::log(report::StepRecord record) {
  const bool has_loss = std::isfinite(record.loss);
  if (has_loss) last_loss_ = record.loss;
  if (has_phases(config_)) {
    record.sync = config().strategy.name();
    if (has_loss) stall_.add(record.step, context_.length.steps, record.loss, record.samples);
  }
  logged_.push_back(record);
  if (logged_.size() > kRowsToKeep) logged_.pop_front();
  tell(&report::Observer::logged, record);
}

// The mean of all models, or their moving average, in the place of this worker's for a while: how
// often a run tests has no influence on its weights.
void RunState::with_model_to_use(const std::function<void()>& use) {
  if (context_.average)
    context_.average->with_mean(control(), context_.local != nullptr, use);
  else
    context_.replica->with_mean_model(use);
}

report::EvalRecord RunState::mark(const data::Dataset& dataset, Evaluation& evaluation) {
  const TimelineScope scope(Activity::test);
  const auto start = Clock::now();
  tell(&report::Observer::evaluating, static_cast<std::int64_t>(dataset.size()));
  const auto at_once = std::max(config_.workers, config_.batch / config_.accumulate);
  EvaluationPlan plan{context_.path.convolution, at_once, context_.device, config_.test_mirrored};
  if (SpreadModel* spread = context_.spread.get()) {
    const bool at_first = dataset.text() == nullptr;  // rank 0 draws images
    plan.groups = {spread->group(), spread->groups(),
                   [=](const torch::Tensor& input) { return spread->scores(input, at_first); }};
  }
  with_model_to_use([&] { evaluation = evaluate(control(), *context_.model, dataset, plan); });
  return {step_,
          epoch(),
          evaluation.loss,
          evaluation.accuracy,
          evaluation.samples,
          seconds_since(start),
          seconds(),
          evaluation.perplexity,
          evaluation.bits_per_byte,
          evaluation.top5};
}

void RunState::test() {
  Evaluation evaluation;
  test_ = mark(*context_.test, evaluation);
  if (first_rank_) {
    write_atomically(folder_.evaluation_file(),
                     describe_evaluation(evaluation, *context_.test).dump() + "\n");
  }
  tell(&report::Observer::evaluated, *test_);
  if (!tensorboard_) return;
  for (const Sheet& sheet : draw_sheets(evaluation, *context_.test))
    tell(&report::Observer::pictured, step_, sheet.name, sheet.picture);
}

void RunState::test_between() {
  if (!context_.validation) {
    test();
    return compare_with_best(*test_);
  }
  Evaluation evaluation;
  validation_ = mark(*context_.validation, evaluation);
  validation_->validation = true;
  tell(&report::Observer::evaluated, *validation_);
  compare_with_best(*validation_);
}

// Where somebody was lost in a test, it is made again, and its figures may differ in the last bits:
// all who are left compare the same ones.
void RunState::compare_with_best(const report::EvalRecord& test) {
  if (compared_ == step_) best_ = best_before_;
  compared_ = step_;
  best_before_ = best_;
  const bool by_loss = context_.test->text() != nullptr;
  const double figure = by_loss ? test.loss : test.accuracy;
  const bool better = !best_ || !std::isfinite(best_->figure) ||
                      (by_loss ? figure < best_->figure : figure > best_->figure);
  if (better)
    best_ = report::BestTest{step_, figure, 0};
  else
    ++best_->tests_since;
}

CheckpointInfo RunState::checkpoint_info() {
  CheckpointInfo info;
  info.step = step_;
  info.ranks = config_.workers;
  info.config = config_;
  context_.choices.observed = context_.replica->observed();
  info.choices = context_.choices;
  info.model = describe_model();
  info.switched_after = context_.switched_after;
  info.stall = stall_;
  info.best = best_;
  info.totals = totals_;
  info.totals.seconds = seconds();
  info.samples_by_worker = samples_by_worker_;
  info.loss_scales = loss_scales_of_all();
  info.totals.bytes_sent += sum_over_ranks(bytes_moved());
  return info;
}

// By this worker, since this call began or the way changed.
std::uint64_t RunState::bytes_moved() {
  return control().bytes_moved() + context_.replica->stats().bytes_moved +
         (context_.spread ? context_.spread->bytes_moved() : 0);
}

// Each worker's.
std::vector<GradScalerState> RunState::loss_scales_of_all() {
  if (!context_.scaler) return {};
  const GradScalerState own = context_.scaler->state();
  std::array<double, 2> mine{own.scale, static_cast<double>(own.steps_since_change)};
  std::vector<double> all(2 * static_cast<std::size_t>(control().size()));
  control().all_gather(buffer_of(std::span(mine)), buffer_of(std::span(all))).or_throw();
  std::vector<GradScalerState> states;
  for (std::size_t i = 0; i < all.size(); i += 2)
    states.push_back({all[i], static_cast<std::int64_t>(all[i + 1])});
  return states;
}

void RunState::add_average(checkpoint::Trained& trained) {
  const bool differ = context_.local != nullptr;
  trained.own_average = differ ? context_.average->tensors() : context_.average->buffers();
  context_.average->with_mean(control(), differ,
                              [&] { trained.average = context_.average->copies(); });
}

void RunState::save() {
  const TimelineScope scope(Activity::checkpoint);
  const std::string path = folder_.series().path(step_);
  checkpoint::Trained trained = trained_of(context_, rank_);
  trained.fetched_state = context_.replica->fetch_optimizer_state();
  if (context_.spread) context_.spread->drop_copies(trained.fetched_state);
  if (context_.replica->models_differ())
    context_.replica->with_mean_model(
        [&] { trained.mean_model = sync::copies_of(sync::parameters_of(*context_.model)); });
  if (context_.average) add_average(trained);
  const auto info = to_json(checkpoint_info());
  context_.replica->with_whole_model([&] { checkpoint::save(control(), path, info, trained); });
  checkpoint_ = std::filesystem::path(path).filename().string();
  checkpoint_step_ = step_;
  if (!first_rank_) return;
  const bool has_best = config_.keep_best && best_;
  folder_.series().keep(config_.keep_checkpoints,
                        has_best ? std::optional(best_->step) : std::nullopt);
  tell(&report::Observer::checkpointed, path);
}

bool RunState::cuts_stages_again() {
  if (!stages_) return false;
  TunedChoices& choices = context_.choices;
  const auto change =
      stages_->look(control(), context_.spread->stats(), {choices.stages, choices.layers.value()},
                    context_.grid->shape(), parallel::find_schedule(config_.pipeline_schedule),
                    pipeline_spec(config_));
  if (!change) return false;
  if (first_rank_)
    asup::log().warn(
        "stages are cut again after step {}: of {} layers in place of {}, since a micro-batch "
        "takes {:.3g} s in the slowest one, and will take {:.3g} s",
        step_, fmt::join(change->to.layers, ", "), fmt::join(choices.stages, ", "),
        change->slowest_now, change->slowest_then);
  choices.stages = change->to.layers;
  choices.layers = change->to.problem;
  return true;
}

// A run that was stopped is not tested: it goes on.
bool RunState::wants_last_test() const { return is_finished() && (!test_ || test_->step != step_); }

// One that was asked to stop is to go on later, whatever else it keeps.
bool RunState::wants_last_checkpoint() const {
  const bool stops = config_.stop_at && step_ < context_.length.steps;
  return (stops || config_.checkpoint_every.kind != Every::Kind::never) &&
         checkpoint_step_ != step_;
}

void RunState::collect_timeline() {
  if (timeline_) timeline_->collect(control());
}

void RunState::collect_timeline_after_loss() {
  if (timeline_) timeline_->collect_after_loss(control());
}

// Over all workers, where that is known; else of this one's own batches. Of a part of the model it
// would be something else.
std::optional<double> RunState::noise_scale() const {
  if (context_.spread) return std::nullopt;
  const auto of_all = context_.replica->stats().noise_scale;
  return of_all ? of_all : context_.portion_noise.noise_scale();
}

}  // namespace asup::train
