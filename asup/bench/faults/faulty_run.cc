#include "asup/bench/faults/faulty_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/faults/program.h"
#include "asup/report/metrics_file.h"
#include "asup/report/run_folder.h"

namespace asup::bench {
namespace {

// Of tests: what all weights of that step have come to, whoever has told of the steps before.
enum class Losses { of_steps, of_tests };

LoggedLosses losses_in(const report::RunFolder& folder, Losses which) {
  const char* const name = which == Losses::of_tests ? "test_loss" : "loss";
  LoggedLosses losses;
  for (const auto& row : report::read_metrics(folder.metrics_file()))
    if (row.contains(name) && row[name].is_number())
      losses[row["step"]] = {row[name], row.value("samples", std::int64_t{0})};
  return losses;
}

std::vector<std::int64_t> logged_steps(const report::RunFolder& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& row : report::read_metrics(folder.metrics_file()))
    if (row.contains("loss")) steps.push_back(row["step"]);
  return steps;
}

std::string last_line_of(const std::string& log) {
  std::istringstream lines(read_file(log));
  std::string last;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) last = line;
  return last;
}

// A newcomer that was killed may say so, and one that comes too late may find nobody.
std::string judge_newcomers(const Watch& watch) {
  for (const Watch::Joining& joining : watch.joined()) {
    const std::string said = read_file(joining.log);
    const bool was_killed = std::ranges::any_of(watch.kills(), [&](const Kill& kill) {
      return said.find(fmt::format("(pid {} on", kill.pid)) != std::string::npos;
    });
    if (joining.status != 0 && !was_killed && !joining.after_us)
      return fmt::format("a newcomer ended with status {}: {}", joining.status,
                         last_line_of(joining.log));
  }
  return "";
}

// How the job itself ended.
std::string judge_status(const FaultyJob& job, const Watch& watch, const Mischief& mischief) {
  const bool should_end = job.way.after == AfterLoss::ends && !mischief.lost_nothing();
  const bool newcomers_end_it = mischief.lost_all_who_began();
  const std::string last = last_line_of(job.log());
  if (watch.status() != (should_end || newcomers_end_it ? 1 : 0))
    return fmt::format("ended with status {}: {}", watch.status(), last);
  if (should_end && last.find(mischief.victim()) == std::string::npos)
    return fmt::format("does not name the lost one, {}: {}", mischief.victim(), last);
  if (newcomers_end_it && last.find("those that had joined went on") == std::string::npos)
    return fmt::format("does not say that newcomers went on: {}", last);
  return "";
}

void judge_program(const FaultyJob& job, const Watch& watch, FaultyJobEnd& end) {
  const ProgramEnds ends = read_program_ends(job.program_folder(), job.steps);
  const int left = job.workers - static_cast<int>(watch.kills().size()) - end.counts.cuts;
  if (ends.workers < left || ends.workers == 0)
    end.failed = fmt::format("only {} of its workers came to the end", ends.workers);
  if (ends.wrong) end.wrong = "a step was no average of those who were there";
  if (!ends.one_model) end.wrong = "workers ended with different models";
  if (!ends.all_steps) end.wrong = "a worker has not made all steps";
}

void judge_training(const FaultyJob& job, const Undisturbed& undisturbed, FaultyJobEnd& end) {
  const report::RunFolder folder(job.run_folder());
  const std::int64_t lost = end.counts.kills + end.counts.cuts;
  const bool tells_all = job.way.after == AfterLoss::ends;
  // Elsewhere workers may go over steps, whose samples are in the next row.
  const std::int64_t untold = tells_all              ? job.way.servers > 0 ? job.steps : 0
                              : job.way.logs_steps() ? lost * kUntoldOfOne
                                                     : job.steps;
  end.lost_steps = count_lost(logged_steps(folder), job.steps, untold);
  if (job.way.after == AfterLoss::from_memory) end.lost_steps += end.again;
  if (!job.way.follows_one) return;
  if (job.way.after != AfterLoss::own_pace &&
      differ(losses_in(folder, Losses::of_steps), undisturbed.of_steps, untold))
    end.wrong = "has other losses than one without faults";
  if (differ(losses_in(folder, Losses::of_tests), undisturbed.of_tests, 0))
    end.wrong = "comes to other weights than one without faults: its tests differ";
}

Undisturbed undisturbed_by(const FaultyJob& job, int workers, ProgramRunner& runner) {
  make_faulty_job_folders(job);
  check(runner.run(undisturbed_command_of(job, workers), {}, job.log()) == 0,
        "a job without faults has failed: {} says why", job.log());
  const report::RunFolder folder(job.run_folder());
  return {losses_in(folder, Losses::of_steps), losses_in(folder, Losses::of_tests)};
}

}  // namespace

Undisturbed run_undisturbed(FaultyJob& job, ProgramRunner& runner) {
  constexpr std::uint64_t kSeeds = 20;
  for (job.seed = 1; job.seed <= kSeeds; ++job.seed) {
    const Undisturbed one = undisturbed_by(job, 1, runner),
                      all = undisturbed_by(job, job.workers, runner);
    if (!differ(all.of_steps, one.of_steps, 0) && !differ(all.of_tests, one.of_tests, 0))
      return one;
  }
  throw Error(
      fmt::format("{} workers do not come to the losses of one process, by {} seeds: see {}",
                  job.workers, kSeeds, job.folder));
}

FaultyJobEnd run_faulty_job(const FaultyJob& job, const Undisturbed& undisturbed,
                            ProgramRunner& runner, VirtualHosts* hosts) {
  FaultyJobEnd end;
  Watch watch(job, runner);
  Mischief mischief(job, watch, hosts);
  mischief.make();
  watch.end();
  mischief.mend();
  end.counts = mischief.counts();
  end.hung = watch.hung();
  if (end.hung) return end;
  const TimesByWorker times = read_step_times(job.times_folder());
  end.recovery_seconds = recovery_seconds(times, watch.kills());
  if (job.way.logs_steps()) end.again = count_again(times, job.steps);
  end.failed = judge_status(job, watch, mischief);
  if (end.failed.empty()) end.failed = judge_newcomers(watch);
  if (!end.failed.empty()) return end;
  if (job.way.is_program) {
    judge_program(job, watch, end);
    return end;
  }
  if (watch.status() != 0)
    if (const int status = runner.run(resume_command_of(job), {}, job.resumed_log()); status != 0) {
      end.failed = fmt::format("cannot be resumed: it ended with status {}: {}", status,
                               last_line_of(job.resumed_log()));
      return end;
    }
  judge_training(job, undisturbed, end);
  return end;
}

}  // namespace asup::bench
