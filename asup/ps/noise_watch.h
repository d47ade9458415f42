// Estimates the noise scale (base/noise_scale.h) on the head: the pushes of an update are gradients
// of small batches, and their mean is that of a large one. Servers find the squared norms of their
// shards, of some updates only. An update of one push tells nothing, nor does one of pushes that
// were computed at different parameters. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "asup/base/noise_scale.h"
#include "asup/ps/pace/pacer.h"

namespace asup::ps {

// Sums of squares of elements that all pushes of an update have.
struct NoiseSquares {
  double pushes = 0;  // mean over the pushes
  double mean = 0;    // of their mean by weight
  NoiseSquares& operator+=(const NoiseSquares& other) {
    pushes += other.pushes;
    mean += other.mean;
    return *this;
  }
};

class NoiseWatch {
 public:
  // `bytes` of a gradient.
  NoiseWatch(std::uint64_t bytes, int servers)
      : every_(steps_between_looks(bytes)), servers_(servers) {}

  // Pushes whose samples are known, and what becomes of them.
  void pushed(const pace::Push& push, std::uint64_t samples);
  void dropped(int worker, std::uint64_t number) { pushes_.erase({worker, number}); }
  void left(int worker);
  // An update is decided: whether servers are to find its squares.
  bool updates(const pace::Update& update);

  // One server has found those of the update to this version.
  void found(std::uint64_t version, const NoiseSquares& squares);

  const NoiseScale& estimator() const { return estimator_; }

 private:
  struct Known {
    std::uint64_t version = 0;
    double samples = 0;
  };
  struct Comparison {
    double small_samples = 0, large_samples = 0;
    NoiseSquares squares;
    int servers = 0;  // that have found theirs
  };

  const std::uint64_t every_;
  const int servers_;
  std::map<std::pair<int, std::uint64_t>, Known> pushes_;  // by worker and number
  std::map<std::uint64_t, Comparison> comparisons_;        // under way, by version
  std::uint64_t updates_ = 0;                              // that could be looked at
  NoiseScale estimator_;
};

}  // namespace asup::ps
