#include "asup/bench/faults/mischief.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <thread>

namespace asup::bench {
namespace {

constexpr int kLeast = 20;        // steps that are left after a fault
constexpr int kStepsSeen = 3;     // and those that show that the others go on
constexpr double kAtOnce = 0.06;  // seconds, at most, between two that are lost in a row
constexpr double kAtTheDoor = 2;  // that a newcomer takes to be in, and more
constexpr double kPause = 8;      // of a link that comes back

}  // namespace

void FaultCounts::add(const FaultCounts& other) {
  kills += other.kills;
  halts += other.halts;
  joins += other.joins;
  cuts += other.cuts;
}

Mischief::Mischief(const FaultyJob& job, Watch& watch, VirtualHosts* hosts)
    : job_(job), watch_(watch), hosts_(hosts), random_(job.moments) {}

void Mischief::make() {
  const bool ends = job_.way.after == AfterLoss::ends;
  const int faults = ends ? below(2) + 1 : below(job_.workers - 1) + 1;
  for (int fault = 0; fault < faults; ++fault) {
    const bool last = fault + 1 == faults;
    // One that ends is resumed, from a checkpoint.
    const int least = ends && last ? 2 * job_.save_every + 5 : 5;
    if (!wait_for_moment(std::max<std::int64_t>(least, watch_.last_step() + 5), faults)) return;
    if (fault == 0)
      for (const pid_t pid : watch_.members()) first_.insert(pid);
    if (hosts_ && last) return cut_link();
    if (ends && last) return void(lose());
    if (!strike()) return;
  }
}

void Mischief::mend() {
  for (const int host : down_) hosts_->set_up(host, true);
  down_.clear();
}

int Mischief::below(int most) {
  return std::uniform_int_distribution<int>(0, std::max(0, most - 1))(random_);
}

// Anywhere in a step.
bool Mischief::wait_for_moment(std::int64_t least, int faults) {
  const std::int64_t from = least + below(static_cast<int>(job_.steps) / (2 * faults));
  return from + kLeast <= job_.steps &&
         watch_.wait_until([&] { return watch_.last_step() >= from; }) &&
         watch_.wait_for(0.001 * below(20));
}

bool Mischief::strike() {
  const auto members = watch_.members();
  if (members.size() < 2) return false;
  if (below(4) > 0 && job_.way.after != AfterLoss::ends) return lose();
  halt(members[static_cast<std::size_t>(below(static_cast<int>(members.size())))]);
  return true;
}

void Mischief::halt(pid_t victim) {
  ++counts_.halts;
  kill(victim, SIGSTOP);
  watch_.wait_for(0.05 * (1 + below(10)));
  kill(victim, SIGCONT);
}

void Mischief::kill_one(pid_t victim) {
  ++counts_.kills;
  victim_ = fmt::format("(pid {} on", victim);
  watch_.kill_process(victim);
}

std::vector<pid_t> Mischief::victims() const {
  if (job_.way.loses_server) return watch_.servers();
  auto members = watch_.members();
  const bool all_may = job_.way.after == AfterLoss::ends || members.size() > 1;
  return all_may ? members : std::vector<pid_t>();
}

bool Mischief::lost_all_who_began() const {
  return !first_.empty() && std::ranges::all_of(first_, [this](pid_t pid) {
    return std::ranges::find(watch_.kills(), pid, &Kill::pid) != watch_.kills().end();
  });
}

// False where nobody is left who could be.
bool Mischief::lose() {
  const bool ends = job_.way.after == AfterLoss::ends;
  const std::int64_t before = watch_.last_step();
  for (bool again = true; again;) {
    const auto those = victims();
    if (those.empty()) return false;
    kill_one(those[static_cast<std::size_t>(below(static_cast<int>(those.size())))]);
    if (ends) return true;
    again = below(3) == 0;
    if (again) std::this_thread::sleep_for(Seconds(kAtOnce * 0.01 * below(100)));
  }
  if (below(2) > 0 && !watch_.wait_until([&] { return watch_.last_step() >= before + kStepsSeen; }))
    return false;
  if (job_.way.takes_in() && !hosts_ && below(3) == 0) let_join();
  return true;
}

// Some never get in.
void Mischief::let_join() {
  ++counts_.joins;
  watch_.let_join();
  if (below(4) > 0 || !watch_.wait_for(kAtTheDoor * 0.01 * below(100))) return;
  const auto newcomers = watch_.newcomers();
  if (newcomers.empty()) return;
  ++counts_.kills;
  watch_.kill_process(newcomers.back());
}

// The launcher's host stays: where it is lost, nobody may go on.
void Mischief::cut_link() {
  ++counts_.cuts;
  victim_ = "rank ";  // the launcher says which of the two ends of a link
  const int host = 1 + below(job_.workers - 1);
  const int kind = below(3);
  if (kind == 0) {
    const int other = below(host);  // a link between two alone
    hosts_->cut(host, other);
    hosts_->cut(other, host);
  } else {
    down_.push_back(host);
    hosts_->set_up(host, false);
  }
  cut_for_good_ = kind < 2;
  if (cut_for_good_ || !watch_.wait_for(0.01 * below(100) * kPause)) return;
  mend();
}

}  // namespace asup::bench
