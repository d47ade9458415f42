// What happens at which step. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/train/config.h"

namespace asup::train {

struct RunLength {
  std::int64_t steps = 0;  // of the whole run
  std::int64_t steps_per_epoch = 1;

  std::int64_t epochs() const { return (steps + steps_per_epoch - 1) / steps_per_epoch; }
};

// The length that epochs or steps of the configuration come to.
RunLength run_length(const TrainConfig& config, std::int64_t steps_per_epoch);

// needs: 0 <= step < length.steps. Warm-up rises in even steps and reaches config.lr at its last
// one; cosine then falls to near 0 (Loshchilov and Hutter, "SGDR", 2017, equation 5, without
// restarts); power is lr · (√((epoch + 1) / eta_min))^(-power), epochs counted from 0.
double learning_rate(const TrainConfig& config, const RunLength& length, std::int64_t step);

// The rate and its course, for people: "lr 0.05 after a warm-up of 100 steps, schedule cosine".
std::string describe_learning_rate(const TrainConfig& config);

// Steps after which all workers meet, ascending, up to the last one of this call: ends of epochs,
// tests, checkpoints, stop_at and the end.
std::vector<std::int64_t> sync_points(const TrainConfig& config, const RunLength& length);

}  // namespace asup::train
