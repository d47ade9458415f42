#include "asup/bench/faults/rate.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "asup/base/error.h"

namespace asup::bench {
namespace {

constexpr std::int64_t kEndless = 1'000'000'000;
constexpr int kTurns = 2;  // of the disturbed one; the other one is before, between, behind
constexpr double kShareAlone = 0.25;  // of a turn's time
constexpr int kStepsAtFirst = 20;     // that do not count
constexpr double kToBeIn = 60;        // seconds for a newcomer, at most

// So many steps in so many seconds.
struct Course {
  double steps = 0, seconds = 0;
  void add(const Course& other) {
    steps += other.steps;
    seconds += other.seconds;
  }
  double speed() const { return seconds > 0 ? steps / seconds : 0; }
};

class Turns {
 public:
  Turns(const FaultyJob& job, double every, ProgramRunner& runner, FaultRate& rate)
      : job_(job), every_(every), runner_(runner), rate_(rate), random_(job.moments) {}

  // needs: rate.trouble is empty
  Course run(double seconds, bool disturbed) {
    Watch watch(job_, runner_);
    Course course;
    if (watch.wait_until([&] { return watch.last_step() >= kStepsAtFirst; })) {
      const std::int64_t first = watch.last_step();
      const double begun = seconds_of_host();
      while (watch.wait_for(0) && seconds_of_host() < begun + seconds) {
        if (disturbed)
          disturb(watch);
        else
          watch.wait_for(seconds);
      }
      course = {static_cast<double>(watch.last_step() - first), seconds_of_host() - begun};
    }
    watch.interrupt();
    watch.end();
    judge(watch);
    return course;
  }

 private:
  // In the midst of the period.
  void disturb(Watch& watch) {
    const double end = seconds_of_host() + every_;
    watch.wait_for(every_ / 4);
    const auto members = watch.members();
    if (members.size() < 2) return fail("there are not two workers left");
    watch.kill_process(members[random_() % members.size()]);
    ++rate_.kills;
    watch.let_join();
    ++rate_.joins;
    const double latest = seconds_of_host() + kToBeIn;
    const auto all = static_cast<std::size_t>(job_.workers);
    while (watch.members().size() < all)
      if (!watch.wait_for(0.05) || seconds_of_host() > latest)
        return fail("a newcomer did not get in");
    watch.wait_for(std::max(0.0, end - seconds_of_host()));
  }

  void judge(const Watch& watch) {
    constexpr int kInterrupted = 130;
    if (watch.hung()) return fail("a job hung");
    if (watch.status() != kInterrupted)
      fail(fmt::format("a job ended with status {}", watch.status()));
  }

  void fail(const std::string& what) {
    if (rate_.trouble.empty()) rate_.trouble = fmt::format("{}; it is in {}", what, job_.folder);
  }

  const FaultyJob& job_;
  const double every_;
  ProgramRunner& runner_;
  FaultRate& rate_;
  std::mt19937_64 random_;
};

}  // namespace

FaultRate measure_fault_rate(FaultyJob job, double every, double seconds, ProgramRunner& runner) {
  check(job.way.takes_in(), "{}: takes nobody in", job.way.name);
  job.steps = kEndless;
  job.test_every = job.save_every = 1000;
  FaultRate rate{.way = job.way};
  Turns turns(job, every, runner, rate);
  const double turn = std::max(1.0, std::round(seconds / kTurns / every)) * every;
  Course alone, disturbed;
  for (int i = 0; i <= kTurns && rate.trouble.empty(); ++i) {
    alone.add(turns.run(turn * kShareAlone, false));
    if (i < kTurns && rate.trouble.empty()) disturbed.add(turns.run(turn, true));
  }
  rate.undisturbed = alone.speed();
  rate.disturbed = disturbed.speed();
  if (rate.trouble.empty()) remove_faulty_job(job);
  return rate;
}

Table fault_rate_table() {
  return {{{"way", -18, 8},
           {"kills", 6, 5},
           {"joins", 6, 5},
           {"left alone", 11, 10},
           {"disturbed", 11, 10},
           {"share", 8, 6}},
          room_here()};
}

std::string line_of(const FaultRate& rate) {
  return fault_rate_table().row(
      {rate.way.name, fmt::format("{}", rate.kills), fmt::format("{}", rate.joins),
       fmt::format("{:.2f}", rate.undisturbed), fmt::format("{:.2f}", rate.disturbed),
       fmt::format("{:.1f} %", rate.share() * 100)});
}

nlohmann::ordered_json json_of(const FaultRate& rate) {
  return {{"way", rate.way.name},
          {"kills", rate.kills},
          {"joins", rate.joins},
          {"undisturbed_steps_per_second", rate.undisturbed},
          {"disturbed_steps_per_second", rate.disturbed},
          {"share", rate.share()},
          {"trouble", rate.trouble}};
}

}  // namespace asup::bench
