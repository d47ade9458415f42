// Which rank keeps which elements of buckets: a pure function, so that ranks that agree on the
// buckets agree on the shards. Values only.
#pragma once

#include "asup/layout/buckets.h"

namespace asup::layout {

// Tensors are cut only after whole numbers of so many elements: norms are summed over these first,
// so that sums do not depend on who has which, and loops over vectors have the same remainders.
inline constexpr std::uint64_t kShardChunk = 1024;

// By rank: what it keeps of one bucket, one after the other and together all of it.
using Shards = std::vector<Range>;

// By bucket, each cut as evenly as chunks allow. With `whole_tensors` only between tensors, and a
// gradient that is alone in its bucket goes to the rank that has the least of those before it.
std::vector<Shards> cut_into_shards(std::span<const Bucket> buckets, std::size_t ranks,
                                    bool whole_tensors);

// What one rank keeps of a tensor.
struct Piece {
  std::size_t tensor = 0;    // its index in the list that the buckets were made of
  std::uint64_t offset = 0;  // of the piece's first element in the tensor
  std::uint64_t elements = 0;
  std::size_t bucket = 0;
  std::uint64_t begin = 0;  // of the piece in the bucket
  bool operator==(const Piece&) const = default;
};
// A rank's, in the order of the buckets: of each tensor one at most.
std::vector<Piece> pieces_of(std::span<const Bucket> buckets, std::span<const Shards> shards,
                             std::size_t rank);

}  // namespace asup::layout
