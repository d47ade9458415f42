// Assembles a rank's batches of one epoch on a thread of its own, ahead of the training thread.
//
// next() is called from one thread. The dataset and the batches must outlive the Prefetcher.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "asup/data/dataset.h"
#include "asup/data/sharding.h"

namespace asup::data {

class Prefetcher {
 public:
  // Starts at step `first_step` of `epoch`, and keeps at most `depth` batches ready. `shares`: of
  // the ranks in each batch, see ShardedBatches::part().
  Prefetcher(const Dataset& dataset, const ShardedBatches& batches, std::uint64_t epoch,
             std::size_t first_step = 0, std::size_t depth = 2,
             std::vector<std::int64_t> shares = {});
  ~Prefetcher();  // waits for the batch being assembled, not for those to come

  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next step's batch, in order; nothing after the epoch's last. What the dataset throws is
  // thrown here, once the batches before it are taken, and again on every call after it.
  std::optional<Batch> next();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace asup::data
