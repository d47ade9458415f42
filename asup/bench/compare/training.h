// One training run of a benchmark, by `asup train` as a user would call it: on this host, or one
// worker on each of several. Used from the thread that made the runner.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "asup/bench/compare/figures.h"
#include "asup/bench/compare/program_runner.h"
#include "asup/bench/compare/strategies.h"
#include "asup/bench/compare/virtual_hosts.h"

namespace asup::bench {

inline constexpr double kNoTarget = std::numeric_limits<double>::infinity();

// What all runs of a benchmark have in common.
struct Training {
  std::string model = "cnn";
  std::string data = "fashion-mnist";
  int workers = 4;
  int batch = 128;
  int steps = 400;
  int tests = 8;   // evenly over the run: at each, all workers meet
  int epochs = 0;  // above 0: so many instead of steps, with a test after each
  std::string optimizer = "sgd";
  double lr = 0.05;
  bool tunes = false;  // the best learning rate for each way, beginning with this one
  std::string schedule = "constant";  // of the learning rate
  std::string flags{};                // more of `asup train`, with spaces between
  double sample_ms = 1.5;  // what a sample takes on a worker that is not slow, by real sleeps
  double target = 0.8;     // test accuracy; kNoTarget: only the end counts
  int threads = 1;         // of a worker
  std::string folder{};    // of the runs
  std::string rates{};     // file of learning rates that were tuned; "": none

  // Reads "auto", or a learning rate for all ways. Throws BadInput.
  void set_lr(const std::string& text);
  // Throws BadInput.
  void check() const;
};

// What a way trains with, unless it is tuned: its own, where its flags or those of all say so.
std::string optimizer_of(const Training& training, const Way& way);
double rate_of(const Training& training, const Way& way);

struct TrainingRun {
  std::string name;  // of its folder
  Way way;
  int seed = 1;
  std::optional<double> lr{};  // over all that flags say
  // ASUP_INJECTED_SLOWNESS (bench/injected_slowness.h), but for the time of a sample.
  std::string slowness{};
  bool takes_its_time = true;        // by sleeps
  const VirtualHosts* hosts{};       // none: this one
  std::vector<std::string> flags{};  // for this run alone

  std::string folder(const Training& training) const;
};

// Throws BadInput where `asup train` would refuse such a run, and for flags that are the
// benchmark's own.
void check_run(const Training& training, const TrainingRun& run);

// How many it has to train on. Throws BadInput where `asup train` would refuse such a run.
std::int64_t training_samples(const Training& training, const TrainingRun& run);

// Starts it. When the runner says that it has ended, ended() tells what came out.
pid_t start(const Training& training, const TrainingRun& run, ProgramRunner& runner);
// Throws Error with the last words of a run that failed. One that diverged is a result.
Figures ended(const Training& training, const TrainingRun& run, int status);

// Both. needs: nothing else that the runner runs
Figures train(const Training& training, const TrainingRun& run, ProgramRunner& runner);

// The command line of it, for this program at `program`.
std::vector<std::string> command_of(const Training& training, const TrainingRun& run,
                                    const std::string& program);

}  // namespace asup::bench
