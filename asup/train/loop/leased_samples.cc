#include "asup/train/loop/leased_samples.h"

#include <algorithm>

namespace asup::train {

namespace {

// So many of the `left` samples of a lease that a part has, of which `in_step` are of one step, and
// `even` are as many as each has of a whole one. None is left alone, neither of the step nor of the
// lease, unless all parts are of one.
std::uint64_t count_of_part(std::uint64_t left, std::uint64_t in_step, std::uint64_t even) {
  if (even == 1) return 1;
  std::uint64_t count = std::min(in_step, even);
  if (in_step - count == 1) ++count;
  if (count == 1) count = std::min(left, 1 + even);
  if (left - count == 1) ++count;
  return count;
}

}  // namespace

// Where workers train by themselves, a lease is a run of samples of several steps, and is cut into
// even parts of them.
LeasedSamples::Part LeasedSamples::part_at(const ps::Release& lease, std::uint64_t at) const {
  const auto batch = static_cast<std::uint64_t>(config_.batch);
  const Capabilities capabilities = config_.strategy.capabilities();
  const auto shares = static_cast<std::uint64_t>(config_.workers - capabilities.backups);
  const std::uint64_t in_step = at % batch, left = lease.end - at;
  std::uint64_t count = std::min(batch - in_step, left);
  if (capabilities.lease_steps > 1)
    count = count_of_part(left, count, (batch + shares - 1) / shares);
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
  return dataset_.get(indices_of(part),
                      static_cast<std::uint64_t>(part.step / length_.steps_per_epoch));
}

// A lease is of one epoch.
std::vector<std::int64_t> LeasedSamples::indices_of(const Part& part) const {
  const auto epoch = static_cast<std::uint64_t>(part.step / length_.steps_per_epoch);
  const auto step = static_cast<std::size_t>(part.step % length_.steps_per_epoch);
  const auto batch = static_cast<std::size_t>(config_.batch);
  const auto [begin, end] = part.samples;
  auto indices = batches_.indices(epoch, step, {begin, std::min(end, batch)});
  if (end <= batch) return indices;
  const auto more = batches_.indices(epoch, step + 1, {0, end - batch});
  indices.insert(indices.end(), more.begin(), more.end());
  return indices;
}

}  // namespace asup::train
