// Learning rates of ways, each the best of a few that were tried on samples set aside from
// training: the test set, which figures are of, has no say in it. Used from one thread.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "asup/bench/compare/training.h"

namespace asup::bench {

// A run with a learning rate, on the samples that were set aside.
struct TriedRate {
  double lr = 0;
  double accuracy = 0;  // in the end
  std::optional<double> seconds_to_target{};
  bool diverged = false;

  // The one that comes to the target sooner; where neither does, the more accurate.
  bool is_better_than(const TriedRate& other) const;
};

struct TunedRate {
  double lr = 0;
  std::vector<TriedRate> tried;  // ascending
};

// The rates to try next: half of `first`, `first` and twice that, and then one more at a time, by
// factors of 2, while the best is at an end of what was tried, six in all. None: that is enough.
std::vector<double> next_rates(double first, const std::vector<TriedRate>& tried);
// needs: tried is not empty
TunedRate best_of(std::vector<TriedRate> tried);

// Tries next_rates() until there are none.
TunedRate tune_rate(double first, const std::function<TriedRate(double lr)>& attempt);

// What was tuned before, in a file, for other runs of the same job: rates are of a job and a way,
// whichever workers are slow.
class TunedRates {
 public:
  // Reads `file` where it is there; "": nothing is kept. Throws BadInput for another file.
  explicit TunedRates(std::string file);

  // What is known of it.
  std::optional<TunedRate> find(const std::string& job) const;
  // Writes the file at once: what was tuned is not lost with a benchmark that is broken off.
  void keep(const std::string& job, const Way& way, const TunedRate& rate);

  // Of run.way, tuned by runs like `run` where it is not known yet. Tells how it goes on stderr.
  TunedRate of(const Training& training, const TrainingRun& run, ProgramRunner& runner);

 private:
  const std::string file_;
  struct Kept {
    std::string job, way;
    TunedRate rate;
  };
  std::vector<Kept> kept_;
};

// A run like `run`, in a folder of its own, that tries a rate, and what came out when it had ended.
// Tells it on stderr.
TrainingRun tuning_run(TrainingRun run, double lr);
TriedRate tried_by(const Training& training, const TrainingRun& tuning, int status);

// The flags of the job and of the way that a learning rate is good for.
std::string job_of(const Training& training, const Way& way);

}  // namespace asup::bench
