// What the workers of a job know of each other's progress, each at its own pace: how many
// samples each has done, and which round was called. Every message between two workers brings what
// the sender knows, of itself and of others; what is more recent is larger, so the larger is kept.
// Values only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "asup/net/transport/wire.h"

namespace asup::gossip {

class ProgressVector {
 public:
  explicit ProgressVector(int workers) : numbers_(static_cast<std::size_t>(workers) + 1) {}

  void set_samples(int worker, std::uint64_t samples);
  void call_round(std::uint64_t round);

  std::uint64_t samples(int worker) const { return numbers_[static_cast<std::size_t>(worker)]; }
  std::uint64_t total() const;  // samples of all
  // The last round that was called, counted from 1; 0: none.
  std::uint64_t round() const { return numbers_.back(); }

  // As they travel. learn() ignores what is not the counts of as many workers.
  std::vector<std::byte> bytes() const;
  void learn(net::ConstBytes bytes);

 private:
  std::vector<std::uint64_t> numbers_;  // samples by worker, then the round; none ever falls
};

}  // namespace asup::gossip
