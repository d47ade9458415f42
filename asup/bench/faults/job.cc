#include "asup/bench/faults/job.h"

#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "asup/base/files.h"
#include "asup/bench/faults/members.h"
#include "asup/report/metrics_file.h"
#include "asup/report/run_folder.h"

namespace asup::bench {
namespace {

constexpr Seconds kLook{0.005};    // at a job, between two
constexpr Seconds kPatience{120};  // without a step, or an end
constexpr int kRowsBehind = 3;     // a row is written when the next step has ended

std::vector<std::string> words_of(const std::string& flags) {
  std::istringstream stream(flags);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> command_of(const FaultyJob& job, const FaultyWay& way, int workers) {
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe"),
                                 "train",
                                 "--model=mlp",
                                 "--width=64",
                                 "--data=synthetic",
                                 "--synthetic-samples=2400",
                                 "--synthetic-test-samples=90",
                                 "--synthetic-shape=1x8x8",
                                 "--batch=24",
                                 "--lr=0.01",
                                 "--threads=1",
                                 "--log-every=1",
                                 "--eval-every=40",
                                 "--checkpoint-every=100",
                                 "--progress=none",
                                 "--no-tensorboard",
                                 fmt::format("--workers={}", workers),
                                 fmt::format("--steps={}", job.steps),
                                 fmt::format("--seed={}", job.seed),
                                 fmt::format("--out={}", job.folder)};
  for (std::string& word : words_of(way.flags)) words.push_back(std::move(word));
  if (workers > 1) words.push_back("--on-loss=continue");
  return words;
}

// 0 where there is none yet, or half of one.
std::int64_t last_logged_step(const std::string& file) {
  constexpr std::int64_t kTail = 4096;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream) return 0;
  stream.seekg(std::max<std::int64_t>(0, static_cast<std::int64_t>(stream.tellg()) - kTail));
  const std::string tail{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t end = tail.rfind('\n');
  if (end == std::string::npos || end == 0) return 0;
  const std::size_t before = tail.rfind('\n', end - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const auto row = nlohmann::json::parse(tail.substr(begin, end - begin), nullptr, false);
  return row.is_object() ? row.value("step", std::int64_t{0}) : 0;
}

LoggedLosses losses_in(const report::RunFolder& folder) {
  LoggedLosses losses;
  for (const auto& row : report::read_metrics(folder.metrics_file()))
    if (row.contains("loss") && row["loss"].is_number())
      losses[row["step"]] = {row["loss"], row["samples"]};
  return losses;
}

// A job under way, as it is seen from outside.
class Watch {
 public:
  Watch(const FaultyJob& job, ProgramRunner& runner)
      : job_(job), folder_(job.folder), runner_(runner) {
    remove_faulty_job(job);
    launcher_ = runner.start(command_of(job, job.way, job.workers),
                             {mark(), "ASUP_INJECTED_SLOWNESS=sample_ms=0.5"}, job.folder + ".log");
  }

  // Until it holds: false where the job ends, or nothing happens any more.
  template <typename Condition>
  bool wait_until(const Condition& condition) {
    std::int64_t step = -1;
    for (Clock::time_point since = Clock::now(); running();) {
      if (condition()) return true;
      if (const std::int64_t now = last_step(); now != step) {
        step = now;
        since = Clock::now();
      } else if (seconds_since(since) > kPatience.count()) {
        hung_ = true;
        return false;
      }
      std::this_thread::sleep_for(kLook);
    }
    return false;
  }

  std::int64_t last_step() const { return last_logged_step(folder_.metrics_file()); }
  bool hung() const { return hung_; }
  int status() const { return status_; }
  std::vector<pid_t> workers() const { return workers_with(mark()); }

  // The job has room for one more.
  void let_join() {
    runner_.start({std::filesystem::read_symlink("/proc/self/exe"), "run", "--join=" + job_.folder,
                   "-n1", "--", std::filesystem::read_symlink("/proc/self/exe"), "train"},
                  {mark()}, job_.folder + ".join.log");
  }

  // Whoever has not ended in time is killed, servers and those who have joined too.
  void end() {
    wait_until([] { return false; });
    hung_ = hung_ || !others_end();
    if (!hung_) return;
    for (const pid_t pid : processes_with(mark())) kill(pid, SIGKILL);
    while (runner_.is_running()) runner_.wait();
  }

 private:
  std::string mark() const { return fmt::format("FAULTS_BENCH_JOB={}-{}", getpid(), job_.folder); }
  bool running() {
    while (const auto ended = runner_.wait_for(Seconds(0)))
      if (ended->pid == launcher_) {
        status_ = ended->status;
        ended_ = true;
      }
    return !ended_;
  }
  bool others_end() {
    for (const auto since = Clock::now(); runner_.is_running();) {
      if (seconds_since(since) > kPatience.count()) return false;
      (void)runner_.wait_for(kLook);
    }
    return true;
  }

  const FaultyJob& job_;
  const report::RunFolder folder_;
  ProgramRunner& runner_;
  pid_t launcher_ = 0;
  bool ended_ = false, hung_ = false;
  int status_ = 0;
};

// Draws what happens to a job, and when.
class Mischief {
 public:
  Mischief(const FaultyJob& job, Watch& watch, FaultyJobEnd& end)
      : job_(job), watch_(watch), end_(end), random_(job.moments) {}

  void make() {
    const int faults = below(job_.workers - 1) + 1;
    for (int fault = 0; fault < faults; ++fault) {
      const std::int64_t from = watch_.last_step() + 5 + below(job_.steps / (2 * faults));
      if (from + 20 > job_.steps || !watch_.wait_until([&] { return watch_.last_step() >= from; }))
        return;
      std::this_thread::sleep_for(Seconds(0.001 * below(20)));  // anywhere in a step
      const auto workers = watch_.workers();
      if (workers.size() < 2) return;
      const pid_t victim =
          workers[static_cast<std::size_t>(below(static_cast<int>(workers.size())))];
      below(4) == 0 ? halt(victim) : lose(victim);
    }
  }

 private:
  int below(int most) {
    return std::uniform_int_distribution<int>(0, std::max(0, most - 1))(random_);
  }

  void halt(pid_t victim) {
    ++end_.halts;
    kill(victim, SIGSTOP);
    std::this_thread::sleep_for(Seconds(0.05 * (1 + below(10))));
    kill(victim, SIGCONT);
  }

  void lose(pid_t victim) {
    const std::int64_t before = watch_.last_step();
    const auto since = Clock::now();
    kill(victim, SIGKILL);
    ++end_.kills;
    if (job_.way.logs_steps &&
        watch_.wait_until([&] { return watch_.last_step() >= before + kRowsBehind; }))
      end_.recovery_seconds.push_back(seconds_since(since));
    if (below(3) > 0) return;
    ++end_.joins;
    watch_.let_join();
  }

  const FaultyJob& job_;
  Watch& watch_;
  FaultyJobEnd& end_;
  std::mt19937_64 random_;
};

std::vector<std::int64_t> logged_steps(const report::RunFolder& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& row : report::read_metrics(folder.metrics_file()))
    if (row.contains("loss")) steps.push_back(row["step"]);
  return steps;
}

}  // namespace

void remove_faulty_job(const FaultyJob& job) {
  std::filesystem::create_directories(std::filesystem::path(job.folder).parent_path());
  std::filesystem::remove_all(job.folder);
  for (const char* log : {".log", ".join.log"}) std::filesystem::remove(job.folder + log);
}

std::optional<LoggedLosses> losses_of_undisturbed(const FaultyJob& job, ProgramRunner& runner) {
  remove_faulty_job(job);
  const FaultyWay plain{"one process", job.way.flags};
  if (runner.run(command_of(job, plain, 1), {}, job.folder + ".log") != 0) return std::nullopt;
  return losses_in(report::RunFolder(job.folder));
}

FaultyJobEnd run_faulty_job(const FaultyJob& job, const LoggedLosses& undisturbed,
                            ProgramRunner& runner) {
  FaultyJobEnd end;
  Watch watch(job, runner);
  Mischief(job, watch, end).make();
  watch.end();
  end.hung = watch.hung();
  end.status = watch.status();
  if (end.hung || end.status != 0) return end;
  const report::RunFolder folder(job.folder);
  const std::int64_t untold = end.kills * kUntoldOfOne;
  // Elsewhere workers may go over steps, whose samples are in the next row.
  end.lost_steps =
      count_lost(logged_steps(folder), job.steps, job.way.logs_steps ? untold : job.steps);
  if (job.way.follows_one) end.differs = differ(losses_in(folder), undisturbed, untold);
  return end;
}

}  // namespace asup::bench
