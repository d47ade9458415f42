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

// Tries half of `first`, `first` and twice that, and goes on by factors of 2 while the best is at
// an end of what was tried, six in all.
TunedRate tune_rate(double first, const std::function<TriedRate(double lr)>& attempt);

// What was tuned before, in a file, for other runs of the same job: rates are of a job and a way,
// whichever workers are slow.
class TunedRates {
 public:
  // Reads `file` where it is there; "": nothing is kept. Throws BadInput for another file.
  explicit TunedRates(std::string file);

  // Of run.way, tuned by runs like `run` where it is not known yet. Tells how it goes on stderr.
  TunedRate of(const Training& training, const TrainingRun& run, ProgramRunner& runner);

 private:
  void keep(const std::string& job, const Way& way, const TunedRate& rate);

  const std::string file_;
  struct Kept {
    std::string job, way;
    TunedRate rate;
  };
  std::vector<Kept> kept_;
};

// The flags of the job and of the way that a learning rate is good for.
std::string job_of(const Training& training, const Way& way);

}  // namespace asup::bench
