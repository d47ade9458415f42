#include "asup/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace asup::train {
namespace {

// By what the batch has the rate be another.
double scale(const TrainConfig& config) {
  const double batches = static_cast<double>(config.batch) / static_cast<double>(config.base_batch);
  if (config.lr_scale == "linear") return batches;
  return config.lr_scale == "sqrt" ? std::sqrt(batches) : 1;
}

// That the course is of.
double whole_rate(const TrainConfig& config) { return config.lr.value() * scale(config); }

double cosine(const TrainConfig& config, const RunLength& length, std::int64_t step) {
  const auto whole = static_cast<double>(std::max<std::int64_t>(1, length.steps - config.warmup));
  const auto done = static_cast<double>(step - config.warmup);
  return whole_rate(config) * 0.5 * (1 + std::cos(std::numbers::pi * done / whole));
}

double steps_down(const TrainConfig& config, const RunLength& length, std::int64_t step) {
  const std::int64_t third = std::max<std::int64_t>(1, (length.epochs() + 2) / 3);
  const std::int64_t every = config.decay_every.value_or(third);
  const std::int64_t times = step / length.steps_per_epoch / every;
  return whole_rate(config) * std::pow(config.decay_factor, static_cast<double>(times));
}

double power(const TrainConfig& config, const RunLength& length, std::int64_t step) {
  const auto epoch = static_cast<double>(step / length.steps_per_epoch);
  return whole_rate(config) * std::pow(std::sqrt((epoch + 1) / config.eta_min), -config.power);
}

}  // namespace

RunLength run_length(const TrainConfig& config, std::int64_t steps_per_epoch) {
  return {config.steps ? *config.steps : config.epochs.value() * steps_per_epoch, steps_per_epoch};
}

double learning_rate(const TrainConfig& config, const RunLength& length, std::int64_t step) {
  if (step < config.warmup) {
    return whole_rate(config) * static_cast<double>(step + 1) / static_cast<double>(config.warmup);
  }
  if (config.schedule == "cosine") return cosine(config, length, step);
  if (config.schedule == "step") return steps_down(config, length, step);
  if (config.schedule == "power") return power(config, length, step);
  return whole_rate(config);
}

std::string describe_learning_rate(const TrainConfig& config) {
  std::string text = fmt::format("lr {:g}", whole_rate(config));
  if (config.lr_scale != "none")
    text += fmt::format(" ({:g}, {} for a batch of {} to {})", config.lr.value(), config.lr_scale,
                        config.base_batch, config.batch);
  if (config.warmup > 0) text += fmt::format(" after a warm-up of {} steps", config.warmup);
  if (config.schedule != "constant") text += fmt::format(", schedule {}", config.schedule);
  return text;
}

std::vector<std::int64_t> sync_points(const TrainConfig& config, const RunLength& length) {
  const std::int64_t last = std::min(config.stop_at.value_or(length.steps), length.steps);
  std::vector<std::int64_t> steps;
  const auto add_multiples = [&](std::int64_t every) {
    for (std::int64_t step = every; step < last; step += every) steps.push_back(step);
  };
  add_multiples(length.steps_per_epoch);
  for (const Every& every : {config.eval_every, config.checkpoint_every})
    if (every.kind == Every::Kind::steps) add_multiples(every.steps);
  steps.push_back(last);
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

}  // namespace asup::train
