// Which samples a rank works on.
//
// There is one global order of the samples for each epoch, the same for any number of ranks and on
// every platform. A step is a global batch: the next `global_batch` samples of that order, of which
// each rank takes a contiguous part, an even one as a rule. So what a step trains on does not
// depend on the ranks.
//
// Any thread may call these, also several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace asup::data {

// Samples 0 … size-1 in random order, anew each epoch: a Fisher-Yates shuffle by data/random.h's
// generator, seeded by (seed, epoch). With labels, one for each sample, classes are spread evenly
// (stratified_order.h).
class GlobalOrder {
 public:
  // Throws BadInput for labels that are not as many.
  GlobalOrder(std::size_t size, std::uint64_t seed, bool shuffle = true,
              std::vector<std::int64_t> labels = {});

  std::size_t size() const { return size_; }
  std::vector<std::int64_t> order(std::uint64_t epoch) const;

 private:
  std::size_t size_;
  std::uint64_t seed_;
  bool shuffle_;
  std::vector<std::int64_t> labels_;  // none: classes do not matter
};

// Part `index` of `count` things dealt out to `parts` in contiguous runs whose sizes differ by at
// most one, the longer ones first.
struct Part {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
  bool operator==(const Part&) const = default;
};
Part part_of(std::size_t count, std::size_t index, std::size_t parts);
// The same, dealt out in proportion to `shares`: exactly by them where they add up to `count`.
// needs: shares >= 0 that do not add up to 0.
Part part_of(std::size_t count, std::size_t index, std::span<const std::int64_t> shares);

// What becomes of the samples at the end of an epoch that do not fill a global batch.
enum class Remainder {
  drop,  // left out; each epoch's order leaves out others
  pad,   // filled up with samples from the start of the same order
  keep   // a shorter last batch, dealt out to the ranks; some may get nothing
};

constexpr std::string_view name_of(Remainder remainder) {
  switch (remainder) {
    case Remainder::drop:
      return "drop";
    case Remainder::pad:
      return "pad";
    case Remainder::keep:
      return "keep";
  }
  return "?";
}

class ShardedBatches {
 public:
  // Throws BadInput when there are no samples, fewer samples in a batch than ranks, or (with drop)
  // fewer samples than one batch.
  ShardedBatches(std::size_t size, std::uint64_t seed, int rank, int ranks,
                 std::size_t global_batch, Remainder remainder, bool shuffle = true,
                 std::vector<std::int64_t> labels = {});

  std::size_t steps_per_epoch() const { return steps_; }

  // This rank's samples of a step. needs: step < steps_per_epoch().
  std::vector<std::int64_t> indices(std::uint64_t epoch, std::size_t step) const;

  // Which samples of a step's global batch those are; with `shares`, one for each rank, not an even
  // part but one in proportion to them. Where a batch has two samples for each rank, a shorter one
  // is dealt out to fewer ranks rather than one sample to some: BatchNorm has no statistics of it.
  Part part(std::uint64_t epoch, std::size_t step, std::span<const std::int64_t> shares = {}) const;

  // Samples [begin, end) of a step's global batch, for ranks that are told which ones to work on.
  // needs: end <= global_count().
  std::vector<std::int64_t> indices(std::uint64_t epoch, std::size_t step, Part samples) const;

  // Samples of a step on all ranks together. A rank that averages its loss over its own samples
  // weighs it by indices().size() / global_count() for the average over the global batch.
  std::size_t global_count(std::uint64_t epoch, std::size_t step) const;

 private:
  using Order = std::shared_ptr<const std::vector<std::int64_t>>;
  Order order(std::uint64_t epoch) const;

  // Constant after construction.
  const GlobalOrder global_order_;
  const std::size_t rank_, ranks_, global_batch_;
  const Remainder remainder_;
  const std::size_t steps_;

  // Protected by mutex_: the order asked for last.
  mutable std::mutex mutex_;
  mutable std::uint64_t cached_epoch_ = 0;
  mutable Order cached_;
};

}  // namespace asup::data
