#include "asup/sync/sharded/sharded_gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "asup/base/error.h"
#include "asup/sync/model/chunked_norm.h"
#include "asup/sync/sharded/sharded_parameters.h"

namespace asup::sync {
namespace {

torch::Tensor tensor_of(const Buffer& buffer) {
  return torch::from_blob(buffer.data, {static_cast<std::int64_t>(buffer.count)},
                          scalar_type_of(buffer.dtype));
}

}  // namespace

ShardedGradients::ShardedGradients(Communicator& communicator,
                                   const std::vector<NamedTensor>& parameters,
                                   std::vector<layout::Bucket> buckets, bool whole_tensors)
    : communicator_(communicator),
      parameters_(parameters),
      buckets_(std::move(buckets)),
      shards_(layout::cut_into_shards(buckets_, static_cast<std::size_t>(communicator.size()),
                                      whole_tensors)),
      pieces_(layout::pieces_of(buckets_, shards_, static_cast<std::size_t>(communicator.rank()))) {
  std::uint64_t bytes = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    offsets_.push_back(bytes);
    const layout::Range& own = shards_[b][static_cast<std::size_t>(communicator.rank())];
    bytes += layout::round_up(own.size() * size_of(buckets_[b].layout.dtype), layout::kCacheLine);
  }
  bytes_ = std::max<std::uint64_t>(bytes, 1);
  memory_ = communicator.allocate(bytes_);
}

Buffer ShardedGradients::own_in(SharedMemory& memory, std::size_t bucket) const {
  const layout::Range& range = shards_[bucket][static_cast<std::size_t>(communicator_.rank())];
  return {memory.bytes().data() + offsets_[bucket], range.size(), buckets_[bucket].layout.dtype};
}

// All ranks have this round.
void ShardedGradients::begin(bool is_first) {
  adds_ = !is_first;
  if (adds_ && !still_to_add_) still_to_add_ = communicator_.allocate(bytes_);
}

Work ShardedGradients::start(std::size_t bucket, const Buffer& gradients) {
  Call call;
  call.collective = collective::Collective::reduce_scatter;
  call.op = ReduceOp::average;
  call.input = gradients;
  call.output = own_in(adds_ ? *still_to_add_ : *memory_, bucket);
  for (const layout::Range& shard : shards_[bucket]) call.counts.push_back(shard.size());
  return communicator_.start(std::move(call));
}

void ShardedGradients::end_round(double factor) {
  torch::NoGradGuard no_grad;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (own(b).count == 0) continue;
    if (adds_)
      tensor_of(own(b)).add_(tensor_of(own_in(*still_to_add_, b)), factor);
    else if (factor != 1)
      tensor_of(own(b)).mul_(factor);
  }
}

torch::Tensor ShardedGradients::part(const layout::Piece& piece) const {
  const Buffer all = own(piece.bucket);
  const layout::Range& range =
      shards_[piece.bucket][static_cast<std::size_t>(communicator_.rank())];
  const torch::Tensor like = part_of(parameters_[piece.tensor].tensor, piece);
  return view_like(
      like, static_cast<std::byte*>(all.data) + (piece.begin - range.begin) * size_of(all.dtype),
      memory_);
}

void ShardedGradients::scale(double factor) {
  if (factor == 1) return;
  torch::NoGradGuard no_grad;
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (own(b).count > 0) tensor_of(own(b)).mul_(factor);
}

// Each chunk is one rank's, so that sums over ranks add zeros to it.
double ShardedGradients::norm(const std::vector<std::uint8_t>& has) const {
  ChunkSums sums(parameters_);
  for (const layout::Piece& piece : pieces_)
    if (has[piece.tensor]) sums.add(piece.tensor, piece.offset, part(piece));
  communicator_.all_reduce(buffer_of(sums.all())).or_throw("finding the norm of the gradients");
  return std::sqrt(sums.sum());
}

}  // namespace asup::sync
