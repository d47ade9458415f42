#include "asup/train/loop/leased_samples.h"

#include <algorithm>

namespace asup::train {

// Where workers train by themselves, a lease is a run of samples of several steps, and is cut into
// even parts of them.
LeasedSamples::Part LeasedSamples::part_at(const ps::Release& lease, std::uint64_t at) const {
  const auto batch = static_cast<std::uint64_t>(config_.batch);
  const auto workers = static_cast<std::uint64_t>(config_.workers);
  const std::uint64_t in_step = at % batch;
  std::uint64_t count = std::min(batch - in_step, lease.end - at);
  if (config_.strategy.capabilities().lease_steps > 1)
    count = std::min(count, (batch + workers - 1) / workers);
  const std::int64_t first = rounds_.steps_after(static_cast<std::int64_t>(lease.step));
  return {first + static_cast<std::int64_t>(at / batch), {in_step, in_step + count}};
}

void LeasedSamples::prepare(const ps::Release& release) {
  if (release.next != ps::Release::Next::lease) return;
  const Part part = part_at(release, release.begin);
  batch_ = take(part);
  prepared_ = part;
}

data::Batch LeasedSamples::take(const Part& part) {
  const auto batch = std::exchange(batch_, std::nullopt);
  if (batch && prepared_ == part) return *batch;
  const auto per_epoch = static_cast<std::uint64_t>(length_.steps_per_epoch);
  const auto step = static_cast<std::uint64_t>(part.step);
  const std::uint64_t epoch = step / per_epoch;
  return dataset_.get(batches_.indices(epoch, step % per_epoch, part.samples), epoch);
}

}  // namespace asup::train
