// The samples of a worker that works at its own pace: of each epoch's global order (sharding.h),
// every n-th one. It goes through them by its own count, so that a fast worker is epochs ahead of a
// slow one; each epoch's order is another, so all workers come to see all samples. Used from one
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/data/sharding.h"

namespace asup::data {

class OwnPart {
 public:
  // Throws BadInput where there are fewer samples than workers.
  OwnPart(std::size_t samples, std::uint64_t seed, int rank, int ranks);

  std::size_t size() const { return size_; }  // in an epoch

  struct Portion {
    std::uint64_t epoch = 0;  // of this worker
    std::vector<std::int64_t> indices;
  };
  // The next `count` of its samples after the first `done`, or those to the end of the epoch; one
  // more where it would be left alone there.
  Portion next(std::uint64_t done, std::size_t count);

 private:
  const GlobalOrder global_order_;
  const std::size_t rank_, ranks_, size_;
  std::optional<std::uint64_t> epoch_;  // that order_ is of
  std::vector<std::int64_t> order_;
};

}  // namespace asup::data
