// What a benchmark takes from a run folder. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace asup::bench {

// A test. Seconds are of training: tests before it do not count.
struct CurvePoint {
  std::int64_t step = 0;
  double seconds = 0;
  double accuracy = 0;
};

struct Figures {
  std::vector<CurvePoint> curve;
  std::optional<double> seconds_to_target;
  double seconds = 0;        // of training
  double accuracy = 0;       // of the last test
  std::int64_t updates = 0;  // of the weights; fewer than steps where batches grow
  double samples = 0;        // that were applied; those of late gradients may have been dropped
  double bytes = 0;          // sent by all workers together
  double idle = 0;           // share of the time in which a worker stood still for an exchange
  double mean_staleness = 0, worst_staleness = 0;  // in steps
  bool diverged = false;  // a run without an end: stale gradients can do it
};

// When the target was reached. Between two tests, and before the first, the accuracy is taken to
// grow evenly.
std::optional<double> seconds_to(const std::vector<CurvePoint>& curve, double target);

enum class TestedOn { test, validation };

// By the tests on these samples; validation: those that `--validation` sets aside. Throws BadInput
// where the folder is no run's, or is of another version.
Figures read_figures(const std::string& folder, double target, TestedOn on = TestedOn::test);

// The median of the steps' times. needs: a run with `--log-every 1`
double seconds_of_a_step(const std::string& folder);

// Whether both runs had the same losses in all steps that both have.
bool same_losses(const std::string& one, const std::string& other);

// The run that `steps` is, had each step taken so many seconds and left workers idle as in `timed`.
Figures as_if_timed(Figures steps, const Figures& timed, double step_seconds, double target);

}  // namespace asup::bench
