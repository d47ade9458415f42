#include "asup/layout/shards.h"

#include <algorithm>
#include <numeric>

namespace asup::layout {
namespace {

// Where a tensor begins, has a whole number of chunks before it, or the space ends: the nearest to
// `element` within its tensor.
std::uint64_t nearest_chunk(const Layout& layout, std::uint64_t element) {
  const auto next = std::upper_bound(
      layout.tensors.begin(), layout.tensors.end(), element,
      [](std::uint64_t at, const Layout::Tensor& tensor) { return at < tensor.range.begin; });
  const std::uint64_t after = next == layout.tensors.end() ? layout.elements : next->range.begin;
  if (next == layout.tensors.begin()) return after;
  const Range& range = std::prev(next)->range;
  const std::uint64_t chunks = (element - range.begin + kShardChunk / 2) / kShardChunk;
  const std::uint64_t at = range.begin + chunks * kShardChunk;
  return at < range.end ? at : after;
}

Shards cut_evenly(const Layout& layout, std::size_t ranks) {
  Shards shards;
  std::uint64_t begin = 0;
  for (std::size_t rank = 1; rank <= ranks; ++rank) {
    const auto even =
        static_cast<std::uint64_t>(static_cast<unsigned __int128>(layout.elements) * rank / ranks);
    const std::uint64_t end =
        rank == ranks ? layout.elements : std::max(begin, nearest_chunk(layout, even));
    shards.push_back({begin, end});
    begin = end;
  }
  return shards;
}

Shards all_to(std::size_t owner, std::size_t ranks, std::uint64_t elements) {
  Shards shards;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    shards.push_back({rank <= owner ? 0 : elements, rank < owner ? 0 : elements});
  return shards;
}

}  // namespace

std::vector<Shards> cut_into_shards(std::span<const Bucket> buckets, std::size_t ranks,
                                    bool whole_tensors) {
  std::vector<Shards> all;
  std::vector<std::uint64_t> kept(ranks);  // bytes
  for (const Bucket& bucket : buckets) {
    const auto least =
        static_cast<std::size_t>(std::min_element(kept.begin(), kept.end()) - kept.begin());
    if (!whole_tensors)
      all.push_back(cut_evenly(bucket.layout, ranks));
    else if (bucket.alone)
      all.push_back(all_to(least, ranks, bucket.layout.elements));
    else
      all.push_back(cut_into_shards(bucket.layout, ranks, true));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      kept[rank] += all.back()[rank].size() * size_of(bucket.layout.dtype);
  }
  return all;
}

std::vector<Piece> pieces_of(std::span<const Bucket> buckets, std::span<const Shards> shards,
                             std::size_t rank) {
  std::vector<Piece> pieces;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Layout& layout = buckets[b].layout;
    for (const Part& part : parts_in(layout, shards[b][rank]))
      pieces.push_back(
          {layout.tensors[part.tensor].index, part.offset, part.range.size(), b, part.range.begin});
  }
  return pieces;
}

}  // namespace asup::layout
