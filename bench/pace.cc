// What each pace gives with virtual workers, by a clock that is only reckoned: the tables of
// docs/adaptive_synchronization.md. Nothing in them is measured, so that the figures are the same
// on every machine. The workers check on the way that what they are told makes sense. Below it,
// what a look of the controller takes, in processor time.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>

#include "tests/ps/pace/cluster.h"

using namespace asup::ps::pace;

namespace {

constexpr double kSeconds = 600;  // an even lease takes one
constexpr double kFixed = 0.1;    // of it, whatever its length
constexpr double kPause = 5;
constexpr int kEven = 64;  // samples of an even lease

struct Scene {
  const char* name;
  double jitter;
  // Of worker `worker` at `now`: how many times slower it is, and how likely a lease is to pause.
  double (*slow)(int worker, double now);
  double (*pauses)(int worker);
  int workers = 4;
};

double never(int) { return 0; }
double equal(int, double) { return 1; }

const Scene kScenes[] = {
    {"equal, jitter 3 %", 0.03, equal, never},
    {"equal, jitter 10 %", 0.1, equal, never},
    {"one 1.5x slower", 0.03, [](int w, double) { return w == 3 ? 1.5 : 1; }, never},
    {"one 4x slower", 0.03, [](int w, double) { return w == 3 ? 4.0 : 1; }, never},
    {"two 2x slower", 0.03, [](int w, double) { return w >= 2 ? 2.0 : 1; }, never},
    {"one 8x faster", 0.03, [](int w, double) { return w == 3 ? 0.125 : 1; }, never},
    {"1, 1.3, 1.7, 2.5x", 0.03,
     [](int w, double) {
       return std::array{1.0, 1.3, 1.7, 2.5}[static_cast<std::size_t>(w)];
     },
     never},
    {"one pauses", 0.03, equal, [](int w) { return w == 3 ? 0.1 : 0; }},
    {"all pause", 0.03, equal, [](int) { return 0.05; }},
    {"one 4x slower for a third", 0.03,
     [](int w, double now) { return w == 3 && now > 200 && now < 400 ? 4.0 : 1; }, never},
    {"1, 2, 4, 8x", 0.03, [](int w, double) { return static_cast<double>(1 << w); }, never},
    {"16 equal, jitter 30 %", 0.3, equal, never, 16},
    {"three of 16 pause", 0.03, equal, [](int w) { return w % 5 == 1 && w < 15 ? 0.1 : 0; }, 16},
};

struct Way {
  const char* name;
  Options options;
};

const Way kWays[] = {
    {"bsp", {.kind = Kind::bsp}},
    {"backup 1", {.kind = Kind::bsp, .backup = 1}},
    {"ssp 1", {.kind = Kind::ssp, .staleness = 1}},
    {"ssp 4", {.kind = Kind::ssp, .staleness = 4}},
    {"kasync 3", {.kind = Kind::kasync, .gather = 3}},
    {"asp", {.kind = Kind::asp}},
    {"frozen", {.kind = Kind::adaptive, .freeze = true}},
    {"adaptive", {.kind = Kind::adaptive}},
};

struct Result {
  double samples = 0, staleness = 0;
  std::vector<Choice> choices;
};

Result run(const Scene& scene, const Options& pace) {
  SchedulerOptions options;
  options.workers = scene.workers;
  options.pace = pace;
  options.work = Workload{};
  options.work->steps = options.work->steps_per_epoch = 1'000'000;
  options.work->batch = static_cast<std::uint64_t>(kEven * scene.workers);
  std::vector<std::mt19937> random;  // a worker's times do not depend on what the others do
  for (int worker = 0; worker < scene.workers; ++worker)
    random.emplace_back(static_cast<unsigned>(worker));
  Cluster cluster(options, [&](int worker, double length, double now) {
    auto& own = random[static_cast<std::size_t>(worker)];
    const double noise = 2e-6 * static_cast<double>(own() % 1'000'001) - 1;
    const bool is_paused = 1e-6 * static_cast<double>(own() % 1'000'000) < scene.pauses(worker);
    const double seconds = scene.slow(worker, now) * (1 + scene.jitter * noise);
    return seconds * (kFixed + (1 - kFixed) * length) + (is_paused ? kPause : 0);
  });
  cluster.run(kSeconds);
  const Cluster::Span span = cluster.span(0, kSeconds);
  return {span.samples, span.staleness / span.samples, cluster.head().report().choices};
}

// Samples that the workers could do together if nobody waited and leases were even.
double possible(const Scene& scene) {
  double seconds = 0;
  for (int worker = 0; worker < scene.workers; ++worker)
    for (double now = 0; now < kSeconds; ++now)
      seconds += 1 / (scene.slow(worker, now) + kPause * scene.pauses(worker));
  return kEven * seconds;
}

// All candidates compared, of workers with speeds of their own: the median of some looks, in ms.
double milliseconds_of_a_look(int workers) {
  std::mt19937 random(1);
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random);
  };
  std::vector<Timing> timings(static_cast<std::size_t>(workers));
  Situation situation;
  situation.can_balance = situation.can_leave = true;
  for (int worker = 0; worker < workers; ++worker) {
    Timing& timing = timings[static_cast<std::size_t>(worker)];
    const double typical = uniform(0.5, 4);
    for (int lease = 0; lease < 32; ++lease) timing.add(1, typical * uniform(0.9, 1.1));
    situation.workers[worker] = {&timing};
  }
  std::vector<double> looks;
  for (int look = 0; look < 25; ++look) {
    Controller controller(false, 0.9);  // a fresh one compares at once
    const std::clock_t began = std::clock();
    (void)controller.decide(situation);
    looks.push_back(1e3 * static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC);
  }
  std::nth_element(looks.begin(), looks.begin() + 12, looks.end());
  return looks[12];
}

}  // namespace

int main(int count, char**) {
  fmt::print("speed as a share of the workers' summed speed / mean staleness in steps\n\n{:27}",
             "");
  for (const Way& way : kWays) fmt::print("{:>12}", way.name);
  fmt::print("\n");
  for (const Scene& scene : kScenes) {
    fmt::print("{:27}", scene.name);
    std::vector<Choice> choices;
    for (const Way& way : kWays) {
      const Result result = run(scene, way.options);
      fmt::print(" {:5.2f} /{:4.2f}", result.samples / possible(scene), result.staleness);
      choices = result.choices;
    }
    fmt::print("  {} choices\n", choices.size());
    if (count > 1)  // any argument: what the adaptive one said
      for (const Choice& choice : choices)
        fmt::print("    {:.1f} s, {}\n", choice.time, describe(choice));
  }
  fmt::print("\n");
  for (const int workers : {4, 16, 64, 256})
    fmt::print("a look at {} workers takes {:.2f} ms\n", workers, milliseconds_of_a_look(workers));
  return ::testing::Test::HasFailure() ? 1 : 0;
}
