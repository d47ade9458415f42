#include "asup/bench/faults/watch.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "asup/bench/faults/members.h"

namespace asup::bench {
namespace {

constexpr Seconds kLook{0.005};    // at a job, between two
constexpr Seconds kPatience{120};  // without a step, or an end

}  // namespace

Watch::Watch(const FaultyJob& job, ProgramRunner& runner) : job_(job), runner_(runner) {
  make_faulty_job_folders(job);
  launcher_ = runner.start(command_of(job), variables_of(job), job.log());
}

bool Watch::wait_until(const std::function<bool()>& condition) {
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

bool Watch::wait_for(double seconds) {
  const double end = seconds_of_host() + seconds;
  return wait_until([&] { return seconds_of_host() >= end; });
}

std::int64_t Watch::last_step() const {
  double progress = 0;
  for (const auto& [pid, last] : last_step_times(job_.times_folder()))
    progress = std::max(progress, last.progress);
  return std::llround(progress * static_cast<double>(job_.steps));
}

std::vector<pid_t> Watch::members() const {
  const auto times = last_step_times(job_.times_folder());
  auto pids = workers_with(job_.mark());
  std::erase_if(pids, [&](pid_t pid) { return !times.contains(pid); });
  return pids;
}

std::vector<pid_t> Watch::newcomers() const {
  const auto times = last_step_times(job_.times_folder());
  auto pids = workers_with(job_.mark());
  std::erase_if(pids, [&](pid_t pid) { return times.contains(pid); });
  return pids;
}

std::vector<pid_t> Watch::servers() const { return servers_with(job_.mark()); }

void Watch::let_join() {
  const std::string log = job_.join_log(joined_.size());
  joined_.push_back({runner_.start(join_command_of(job_), variables_of(job_), log), log});
}

void Watch::kill_process(pid_t victim) {
  kills_.push_back({victim, seconds_of_host()});
  kill(victim, SIGKILL);
}

void Watch::interrupt() {
  if (running()) kill(launcher_, SIGINT);
}

void Watch::end() {
  wait_until([] { return false; });
  hung_ = hung_ || !others_end();
  if (!hung_) return;
  for (const pid_t pid : processes_with(job_.mark())) kill(pid, SIGKILL);
  while (runner_.is_running()) runner_.wait();
}

bool Watch::running() {
  while (const auto ended = runner_.wait_for(Seconds(0))) took_end(*ended);
  return !ended_;
}

void Watch::took_end(const ProgramRunner::Ended& ended) {
  if (ended.pid == launcher_) {
    status_ = ended.status;
    ended_ = true;
    // One that was told so just before us has been taken first.
    for (Joining& joining : joined_)
      joining.after_us |= joining.status < 0 || seconds_of_host() - joining.ended < 1;
  }
  const auto joining = std::ranges::find(joined_, ended.pid, &Joining::pid);
  if (joining == joined_.end()) return;
  joining->status = ended.status;
  joining->ended = seconds_of_host();
  joining->after_us |= ended_;
}

bool Watch::others_end() {
  for (const auto since = Clock::now(); runner_.is_running();) {
    if (seconds_since(since) > kPatience.count()) return false;
    if (const auto ended = runner_.wait_for(kLook)) took_end(*ended);
  }
  return true;
}

}  // namespace asup::bench
