// What staleness costs this job: gamma, where a sample that is s steps late brings 1 / (1 + gamma
// s) of the progress that a fresh one brings.
//
// Learned from the losses that pushes report. Training is cut into windows of some steps; the fall
// of the log loss from the first half of a window to the second is its progress. Between two
// windows of different staleness, progress should change as gamma says. What is known of gamma is a
// probability for each of a few values, and every such pair makes those likelier that fit. Losses
// are noisy, so that pairs count by how well they are known, and most of the time the prior
// decides: it is what training showed (docs/adaptive_synchronization.md has the figures). Late
// gradients act like more momentum, so that they cost little where the rule has none, and much
// where it has all that it can bear. One thread at a time.
#pragma once

#include <array>

namespace asup::ps::pace {

class Sensitivity {
 public:
  // `momentum`: of the rule that applies gradients.
  explicit Sensitivity(double momentum);

  // A push was applied: what part of a step it is, the mean loss of its samples, and how many steps
  // it was late. Losses that are not finite or not positive are left out.
  void add(double steps, double loss, double staleness);

  // The pace changes: a window that has both would tell of neither.
  void cut();

  double gamma() const;

 private:
  static constexpr std::array kValues{0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 3.0};

  struct Half {
    double steps = 0, loss = 0, square = 0, staleness = 0;  // sums, by steps
    int count = 0;
    double mean() const { return loss / steps; }
    double variance() const;  // of the mean's logarithm
  };
  struct Progress {
    double fall = 0, variance = 0, staleness = 0;
    bool is_known = false;
  };

  void close_window();
  void learn(const Progress& before, const Progress& now);

  std::array<double, kValues.size()> probability_;
  Half first_, second_;  // of the window
  Progress progress_;    // of the one before
};

}  // namespace asup::ps::pace
