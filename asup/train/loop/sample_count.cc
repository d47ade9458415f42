#include "asup/train/loop/sample_count.h"

#include <algorithm>

namespace asup::train {
namespace {

std::int64_t count(const data::ShardedBatches& batches, std::int64_t step) {
  return static_cast<std::int64_t>(batches.global_count(0, static_cast<std::size_t>(step)));
}

}  // namespace

SampleCount::SampleCount(const RunLength& length, const data::ShardedBatches& batches)
    : steps_(length.steps),
      per_epoch_(length.steps_per_epoch),
      batch_(count(batches, 0)),
      epoch_((per_epoch_ - 1) * batch_ + count(batches, per_epoch_ - 1)) {}

std::int64_t SampleCount::of(std::int64_t steps) const {
  return steps / per_epoch_ * epoch_ + steps % per_epoch_ * batch_;
}

std::int64_t SampleCount::step_at(std::int64_t samples) const {
  const std::int64_t in_epoch = std::min(samples % epoch_ / batch_, per_epoch_ - 1);
  return std::min(samples / epoch_ * per_epoch_ + in_epoch, steps_ - 1);
}

std::int64_t SampleCount::steps_for(std::int64_t samples) const {
  return samples <= 0 ? 0 : step_at(samples - 1) + 1;
}

}  // namespace asup::train
