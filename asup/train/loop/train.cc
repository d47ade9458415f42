#include "asup/train/loop/train.h"

#include <filesystem>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/log.h"
#include "asup/distribute/recorded_timeline.h"
#include "asup/net/membership/roles.h"
#include "asup/train/device.h"
#include "asup/train/grid_settings.h"
#include "asup/train/loop/spare.h"
#include "asup/train/loop/trainer.h"
#include "asup/train/state/generation.h"
#include "asup/train/state/run_state.h"
#include "asup/train/worker_changes.h"

namespace asup::train {
namespace {

// Any of them. Collective.
bool any_rank(RunState& run, bool here) {
  std::int32_t somewhere = here ? 1 : 0;
  run.control().all_reduce(buffer_of(std::span(&somewhere, 1)), ReduceOp::max).or_throw();
  return somewhere > 0;
}

// The end of a run that has come to it before this call: it is left as it is. Collective.
std::optional<TrainEnd> end_before(RunState& run) {
  const auto summary = run.finished_before();
  if (!any_rank(run, summary.has_value())) return std::nullopt;
  return TrainEnd{.summary = summary.value_or(report::Summary{}),
                  .keeps_folder = run.is_first_rank(),
                  .was_finished = true};
}

// A folder that is there may be another run's, from before the job.
Begun begun_in_earlier_life(const JobLife& life, const std::string& folder) {
  const std::string file = report::RunFolder(folder).job_file();
  const bool begun =
      life.restart > 0 && std::filesystem::exists(file) && read_file(file) == life.job;
  return begun ? Begun::in_sight : Begun::not_yet;
}

// Nothing where it ended early to take newcomers in.
std::optional<TrainEnd> train_run(Job& job, const TrainConfig& config, RunState& run,
                                  const std::function<bool()>& stop_asked, const JobLife& life,
                                  Begun& begun) {
  run.begin(begun == Begun::in_sight);
  if (run.is_first_rank()) {
    if (!life.job.empty()) write_atomically(run.folder().job_file(), life.job);
    begun = Begun::in_sight;
  }
  run.control().barrier().or_throw();
  begun = run.sees_folder() ? Begun::in_sight : Begun::elsewhere;
  const bool open = can_change_workers(config);
  if (!open && job.rank() == 0)
    job.refuse_newcomers(
        "the job takes no newcomers in: it keeps no checkpoints (checkpoint-every = never), its "
        "graph names each worker, or groups of workers train through servers");
  const std::function<bool()> pause = [&] { return stop_asked() || (open && job.newcomers()); };
  TrainEnd end = Trainer(run, job, pause).train();
  if (run.switches()) {
    run.switch_strategy(job);
    end = Trainer(run, job, pause).train();
  }
  const bool is_stop = !end.stopped || run.step() >= run.last_step() || any_rank(run, stop_asked());
  if (!is_stop) return std::nullopt;
  run.tell(&report::Observer::ended, end.summary);
  return end;
}

std::optional<TrainEnd> train_generation(Job& job, const TrainConfig& config,
                                         report::Observer& display,
                                         const std::function<bool()>& stop_asked, StepHooks& hooks,
                                         const JobLife& life, Begun& begun,
                                         RecordedTimeline* timeline,
                                         const std::vector<std::int64_t>& lost) {
  RunState run =
      explain_lack_of_memory([&] { return RunState(job, config, display, hooks, timeline); });
  run.lost_before(lost);
  if (job.generation() == 1)
    if (auto end = end_before(run)) return end;
  try {
    if (timeline) timeline->begin(run.control(), job.rank());
    return explain_lack_of_memory(
        [&] { return train_run(job, config, run, stop_asked, life, begun); });
  } catch (const std::exception& failure) {
    if (dynamic_cast<const PeerLost*>(&failure)) run.collect_timeline_after_loss();
    run.failed(failure.what());
    throw;
  }
}

// Ranks may change from one generation to the next; in the job's summary each worker has the place
// that it came to first.
std::vector<std::int64_t> lost_between(const net::Roster& before, const net::Roster& now) {
  std::vector<std::int64_t> lost;
  for (const net::Member& worker : before.workers())
    if (!now.find(worker.id)) lost.push_back(first_rank_of(worker));
  return lost;
}

// Whether there are no more workers than have something to do. The last to come leave again, and
// the others begin another generation without them; where they train in groups, they are spares.
bool all_have_work(const Job& job, const TrainConfig& config) {
  if (is_spread(config)) return true;
  const std::int64_t most = most_workers(config);
  if (job.size() <= most) return true;
  require(job.rank() < most,
          "the job takes no more than {} workers: its batch of {} has no portion for another one",
          most, config.batch);
  if (job.rank() == 0) log().warn("{} workers came, and there is work for {}", job.size(), most);
  return false;
}

// A spare may come to be the first one that is left, and begins nothing anew then.
std::optional<TrainEnd> be_spare(Job& job, const TrainConfig& config, Begun& begun) {
  const auto stopped = wait_as_spare(job);
  if (stopped) return TrainEnd{.summary = {}, .stopped = *stopped};
  if (sees_folder(config))
    begun = Begun::in_sight;
  else if (begun == Begun::not_yet)
    begun = Begun::elsewhere;
  return std::nullopt;
}

// Those who are left of a group may have missed one of their own, who had missed the lost one.
void tell_of_loss(const Job& job, const TrainConfig& config, const std::string& why,
                  const std::vector<std::int64_t>& lost) {
  if (job.rank() != 0 || why.empty() || workers_in_groups(config, job.size()) == 0) return;
  if (!is_spread(config)) return log().warn("{}. The others go on from the last checkpoint", why);
  log().warn("{}. The others go on from the last checkpoint: {}",
             lost.empty() ? why
                          : fmt::format("{} {} lost", net::name_ranks({lost.begin(), lost.end()}),
                                        lost.size() == 1 ? "was" : "were"),
             describe_groups(config, job.size()));
}

}  // namespace

TrainEnd train(Job& job, const TrainConfig& config, report::Observer& display,
               const std::function<bool()>& stop_asked, StepHooks& hooks, const JobLife& life) {
  Begun begun = begun_in_earlier_life(life, config.out);
  std::optional<RecordedTimeline> timeline;
  std::vector<std::int64_t> lost;  // in earlier generations
  for (TrainConfig now = config;;) {
    bool trained = false;
    std::string lost_one;
    try {
      now = settings_of_generation(job, now, begun);
      if (now.timeline.on && !timeline)
        timeline.emplace(RecordedTimeline::Options{now.timeline_steps.range, now.timeline.operators,
                                                   report::RunFolder(now.out).timeline_file()},
                         job.rank());
      trained = all_have_work(job, now);
      if (trained && job.rank() >= now.workers) {
        if (auto end = be_spare(job, now, begun)) return *end;
      } else if (trained) {
        std::optional<Spares> spares;
        if (job.rank() == 0) spares.emplace(job, now);
        if (auto end = train_generation(job, now, display, stop_asked, hooks, life, begun,
                                        timeline ? &*timeline : nullptr, lost)) {
          if (spares) spares->tell_end(end->stopped);
          return *end;
        }
      }
    } catch (const PeerLost& failure) {
      if (!can_change_workers(now) || !job.can_go_on_without_the_lost()) throw;
      lost_one = failure.what();
    }
    const net::Roster before = job.roster();
    check(job.renew(), "the coordinator has ended: this job has no next generation");
    const std::vector<std::int64_t> gone = lost_between(before, job.roster());
    tell_of_loss(job, now, lost_one, gone);
    if (trained) lost.insert(lost.end(), gone.begin(), gone.end());
  }
}

}  // namespace asup::train
