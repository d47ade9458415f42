// What the workers of a job know of each other's progress, though they never all meet: how many
// samples each has done, and which fence was called. Every message between two workers brings what
// the sender knows, of itself and of others; what is more recent is larger, so the larger is kept.
// Values only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "asup/net/wire.h"

namespace asup::pairwise {

class Counts {
 public:
  explicit Counts(int workers) : numbers_(static_cast<std::size_t>(workers) + 1) {}

  void set_samples(int worker, std::uint64_t samples);
  void call_fence(std::uint64_t fence);

  std::uint64_t samples(int worker) const { return numbers_[static_cast<std::size_t>(worker)]; }
  std::uint64_t total() const;  // samples of all
  // The last fence that was called, counted from 1; 0: none.
  std::uint64_t fence() const { return numbers_.back(); }

  // As they travel. learn() ignores what is not the counts of as many workers.
  std::vector<std::byte> bytes() const;
  void learn(net::ConstBytes bytes);

 private:
  std::vector<std::uint64_t> numbers_;  // samples by worker, then the fence; none ever falls
};

}  // namespace asup::pairwise
