#include "asup/train/state/rounds.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/distribute/strategy.h"
#include "asup/train/phases.h"
#include "asup/train/pipeline_settings.h"

namespace asup::train {

namespace {

std::int64_t steps_of_round(const TrainConfig& config) {
  return config.strategy.capabilities().lease_steps;
}

}  // namespace

std::int64_t Rounds::steps_after(std::int64_t rounds) const {
  const std::int64_t epochs = rounds / per_epoch(), rest = rounds % per_epoch();
  return epochs * steps_per_epoch_ + rest * every_;
}

std::int64_t Rounds::rounds_after(std::int64_t steps) const {
  const std::int64_t epochs = steps / steps_per_epoch_, rest = steps % steps_per_epoch_;
  require(
      rest % every_ == 0,
      "all meet after step {}, for a test, a checkpoint or the end, but exchange parameters "
      "every {} steps of an epoch, which has {}. Choose eval-every, checkpoint-every, steps and "
      "stop-at so that they fall together, or another every.",
      steps, every_, steps_per_epoch_);
  return epochs * per_epoch() + rest / every_;
}

Rounds rounds_of(const TrainConfig& config, const RunLength& length) {
  return {steps_of_round(config), length.steps_per_epoch};
}

ps::pace::Workload work_of(const TrainConfig& config, const RunLength& length,
                           const data::ShardedBatches& batches, std::int64_t first) {
  const Rounds rounds = rounds_of(config, length);
  const auto rounds_after = [&](std::int64_t steps) {
    return static_cast<std::uint64_t>(rounds.rounds_after(steps));
  };
  ps::pace::Workload work;
  work.steps = rounds_after(length.steps);
  work.first_step = rounds_after(first);
  work.batch = static_cast<std::uint64_t>(config.batch * steps_of_round(config));
  work.steps_per_epoch = static_cast<std::uint64_t>(rounds.per_epoch());
  std::uint64_t last = 0;
  for (std::int64_t step = rounds.steps_after(rounds.per_epoch() - 1);
       step < length.steps_per_epoch; ++step)
    last += batches.global_count(0, static_cast<std::size_t>(step));
  work.last_batch = last == work.batch ? 0 : last;
  for (const std::int64_t step : sync_points(config, length))
    work.sync_points.push_back(rounds_after(step));
  work.can_leave = can_leave_servers(config);
  if (has_pipeline(config)) work.grain = static_cast<std::uint64_t>(samples_at_a_time(config));
  return work;
}

}  // namespace asup::train
