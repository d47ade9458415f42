#include "asup/data/sharding.h"

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"
#include "asup/data/random.h"
#include "asup/data/stratified_order.h"

namespace asup::data {
namespace {

void require_sense(std::size_t size, int rank, int ranks, std::size_t global_batch,
                   Remainder remainder) {
  check(ranks >= 1 && rank >= 0 && rank < ranks, "there is no rank {} of {}", rank, ranks);
  require(size >= 1, "there are no samples to train on");
  require(global_batch >= static_cast<std::size_t>(ranks),
          "a global batch of {} leaves some of the {} workers without a sample; use a batch of at "
          "least {}",
          global_batch, ranks, ranks);
  require(remainder != Remainder::drop || size >= global_batch,
          "a global batch of {} is more than the {} samples there are; use a smaller batch",
          global_batch, size);
}

// An even part of two samples at least, as long as there are any.
Part part_of_two(std::size_t count, std::size_t index, std::size_t parts) {
  parts = std::clamp<std::size_t>(count / 2, 1, parts);
  return index < parts ? part_of(count, index, parts) : Part{count, count};
}

// The end of a part, moved so that neither it nor the next is of one sample.
std::size_t after_pair(std::size_t end, std::size_t count) {
  const std::size_t even = end - end % 2;
  return even + 1 >= count ? count : even;
}

std::size_t count_steps(std::size_t size, std::size_t global_batch, Remainder remainder) {
  const std::size_t full = size / global_batch;
  return remainder == Remainder::drop || size % global_batch == 0 ? full : full + 1;
}

}  // namespace

GlobalOrder::GlobalOrder(std::size_t size, std::uint64_t seed, bool shuffle,
                         std::vector<std::int64_t> labels)
    : size_(size), seed_(seed), shuffle_(shuffle), labels_(std::move(labels)) {
  require(labels_.empty() || labels_.size() == size, "{} labels for {} samples: give one for each",
          labels_.size(), size);
}

std::vector<std::int64_t> GlobalOrder::order(std::uint64_t epoch) const {
  if (shuffle_ && !labels_.empty()) return stratified_order(labels_, seed_, epoch);
  std::vector<std::int64_t> order(size_);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle_) return order;
  Random random(seed_, epoch);
  for (std::size_t left = size_; left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

Part part_of(std::size_t count, std::size_t index, std::size_t parts) {
  const std::size_t each = count / parts, longer = count % parts;
  const std::size_t begin = index * each + std::min(index, longer);
  return {begin, begin + each + (index < longer ? 1 : 0)};
}

Part part_of(std::size_t count, std::size_t index, std::span<const std::int64_t> shares) {
  const auto sum_of = [](std::span<const std::int64_t> some) {
    return static_cast<std::size_t>(std::accumulate(some.begin(), some.end(), std::int64_t{0}));
  };
  check(index < shares.size(), "part {} of {}", index, shares.size());
  const std::size_t all = sum_of(shares);
  check(all > 0, "{} shares of nothing", shares.size());
  return {count * sum_of(shares.first(index)) / all, count * sum_of(shares.first(index + 1)) / all};
}

ShardedBatches::ShardedBatches(std::size_t size, std::uint64_t seed, int rank, int ranks,
                               std::size_t global_batch, Remainder remainder, bool shuffle,
                               std::vector<std::int64_t> labels)
    : global_order_(size, seed, shuffle, std::move(labels)),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      global_batch_((require_sense(size, rank, ranks, global_batch, remainder), global_batch)),
      remainder_(remainder),
      steps_(count_steps(size, global_batch, remainder)) {}

std::vector<std::int64_t> ShardedBatches::indices(std::uint64_t epoch, std::size_t step) const {
  return indices(epoch, step, part(epoch, step));
}

Part ShardedBatches::part(std::uint64_t epoch, std::size_t step,
                          std::span<const std::int64_t> shares) const {
  const std::size_t count = global_count(epoch, step);
  check(shares.empty() || shares.size() == ranks_, "{} shares for {} ranks", shares.size(), ranks_);
  const bool is_whole = count == global_batch_ || global_batch_ < 2 * ranks_;
  if (shares.empty())
    return is_whole ? part_of(count, rank_, ranks_) : part_of_two(count, rank_, ranks_);
  const Part part = part_of(count, rank_, shares);
  return is_whole ? part : Part{after_pair(part.begin, count), after_pair(part.end, count)};
}

std::vector<std::int64_t> ShardedBatches::indices(std::uint64_t epoch, std::size_t step,
                                                  Part samples) const {
  check(samples.begin <= samples.end && samples.end <= global_count(epoch, step),
        "samples {} to {} of a step that has {}", samples.begin, samples.end,
        global_count(epoch, step));
  const Order order = this->order(epoch);
  std::vector<std::int64_t> indices;
  indices.reserve(samples.size());
  for (std::size_t i = samples.begin; i < samples.end; ++i)
    indices.push_back((*order)[(step * global_batch_ + i) % order->size()]);  // %: pad
  return indices;
}

std::size_t ShardedBatches::global_count(std::uint64_t, std::size_t step) const {
  check(step < steps_, "step {} of an epoch of {}", step, steps_);
  if (remainder_ != Remainder::keep) return global_batch_;
  return std::min(global_batch_, global_order_.size() - step * global_batch_);
}

ShardedBatches::Order ShardedBatches::order(std::uint64_t epoch) const {
  std::lock_guard lock(mutex_);
  if (!cached_ || cached_epoch_ != epoch) {
    cached_ = std::make_shared<const std::vector<std::int64_t>>(global_order_.order(epoch));
    cached_epoch_ = epoch;
  }
  return cached_;
}

}  // namespace asup::data
