// Parts of a batch for workers that are not equally fast. Pure; safe from any thread.
//
// Whole numbers throughout, so that all workers find the same parts, whatever their processors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace asup::train {

// How long a worker takes for its part of a batch, in picoseconds: some of it whatever the part is.
struct WorkTime {
  std::int64_t fixed_ps = 0;
  std::int64_t sample_ps = 0;

  std::int64_t of(std::int64_t samples) const { return fixed_ps + samples * sample_ps; }
  bool operator==(const WorkTime&) const = default;
};

// From measured seconds for an even part of `even` samples, a share `fixed` of which does not grow
// with the part. Bounded so that no part of a batch of `batch` samples overflows.
WorkTime work_time(double seconds, double fixed, double even, std::int64_t batch);

// As data::part_of() deals out a batch.
std::vector<std::int64_t> even_shares(std::int64_t batch, std::size_t workers);

// The least of a worker: two where a batch has so many for each, since BatchNorm has no statistics
// of one; else one.
std::int64_t least_share(std::int64_t batch, std::size_t workers);

// Whether they are parts of such a batch, with the least for each worker.
bool are_shares(std::span<const std::int64_t> parts, std::int64_t batch, std::size_t workers);

// The parts with which the last worker to be done is done soonest; each has the least.
// needs: batch >= times.size()
std::vector<std::int64_t> fastest_shares(std::int64_t batch, std::span<const WorkTime> times);

// Those, where they save a fortieth of the time that `present` takes, else `present`: what is
// measured is never quite the same twice, and parts that change cost a little.
std::vector<std::int64_t> better_shares(const std::vector<std::int64_t>& present,
                                        std::span<const WorkTime> times);

}  // namespace asup::train
