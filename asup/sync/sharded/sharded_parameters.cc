#include "asup/sync/sharded/sharded_parameters.h"

#include "asup/base/error.h"
#include "asup/base/pages.h"
#include "asup/base/quietly.h"
#include "asup/sync/model/device.h"

namespace asup::sync {

torch::Tensor flat(const torch::Tensor& tensor) {
  return tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

torch::Tensor part_of(const torch::Tensor& tensor, const layout::Piece& piece) {
  const auto elements = static_cast<std::int64_t>(piece.elements);
  if (elements == tensor.numel()) return tensor.detach();
  const torch::Tensor row =
      flat(tensor).narrow(0, static_cast<std::int64_t>(piece.offset), elements);
  return tensor.dim() > 1 ? row.unsqueeze(0) : row;
}

torch::Tensor lying_as(const torch::Tensor& tensor, const torch::Tensor& like) {
  if (tensor.strides() == like.strides() && tensor.is_non_overlapping_and_dense()) return tensor;
  return torch::empty_like(like.detach(), tensor.options()).copy_(tensor);
}

ShardedParameters::ShardedParameters(Communicator& communicator,
                                     std::vector<NamedTensor> parameters,
                                     std::vector<layout::Bucket> buckets, bool whole_tensors)
    : communicator_(communicator),
      parameters_(std::move(parameters)),
      buckets_(std::move(buckets)),
      shards_(layout::cut_into_shards(buckets_, static_cast<std::size_t>(communicator.size()),
                                      whole_tensors)),
      places_(parameters_.size()),
      copies_(travels_as_copy(parameters_.front().tensor.device())) {
  for (const auto& [name, tensor] : parameters_)
    require(tensor.is_non_overlapping_and_dense(),
            "parameter {} ({}) has gaps in memory and cannot be sharded: make it contiguous(), or "
            "leave shard out",
            name, describe(tensor));
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(communicator.size()); ++rank)
    pieces_.push_back(layout::pieces_of(buckets_, shards_, rank));
  memory_ = communicator.allocate(layout::place(buckets_));
  move_in();
}

void ShardedParameters::move_in() {
  torch::NoGradGuard no_grad;
  for (const layout::Bucket& bucket : buckets_)
    for (const auto& [index, name, range] : bucket.layout.tensors) {
      std::byte* place =
          memory_->bytes().data() + bucket.offset + range.begin * size_of(bucket.layout.dtype);
      const torch::Tensor& parameter = parameters_[index].tensor;
      places_[index] = host_view_like(parameter, place, memory_);
      parameter_at_.emplace(place, index);
      if (copies_) continue;
      places_[index].copy_(parameter.detach());
      parameter.set_data(places_[index]);
    }
}

ShardedParameters::~ShardedParameters() {
  quietly([this] {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor& parameter = parameters_[i].tensor;
      if (!copies_ && parameter.data_ptr() == places_[i].data_ptr())
        parameter.set_data(parameter.detach().clone());
    }
  });
}

std::vector<std::size_t> ShardedParameters::counts(std::size_t parameter) const {
  std::vector<std::size_t> counts;
  for (const auto& pieces : pieces_) {
    counts.push_back(0);
    for (const layout::Piece& piece : pieces)
      if (piece.tensor == parameter) counts.back() = piece.elements;
  }
  return counts;
}

void ShardedParameters::gather() {
  if (communicator_.size() == 1) return;
  copy_own_to_host();
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    communicator_.run(gathering(b)).or_throw("gathering the parameters that the others have moved");
  copy_others_to_device();
}

Call ShardedParameters::gathering(std::size_t bucket) const {
  const layout::Layout& layout = buckets_[bucket].layout;
  const layout::Range& own = shards_[bucket][rank()];
  std::byte* begin = memory_->bytes().data() + buckets_[bucket].offset;
  Call call;
  call.collective = collective::Collective::all_gather;
  call.input = {begin + own.begin * size_of(layout.dtype), own.size(), layout.dtype};
  call.output = {begin, layout.elements, layout.dtype};
  for (const layout::Range& shard : shards_[bucket]) call.counts.push_back(shard.size());
  return call;
}

Work ShardedParameters::start_gather(std::size_t bucket) {
  return communicator_.start(gathering(bucket));
}

void ShardedParameters::forget_others(std::size_t bucket) {
  const layout::Layout& layout = buckets_[bucket].layout;
  const layout::Range& own = shards_[bucket][rank()];
  std::byte* begin = memory_->bytes().data() + buckets_[bucket].offset;
  const std::uint64_t own_begin = own.begin * size_of(layout.dtype);
  const std::uint64_t own_end = own.end * size_of(layout.dtype);
  give_pages_back({begin, own_begin});
  give_pages_back(
      {begin + own_end, layout::round_up(layout.bytes(), layout::kBucketAlignment) - own_end});
}

std::optional<std::size_t> ShardedParameters::parameter_at(const void* address) const {
  const auto found = parameter_at_.find(address);
  return found == parameter_at_.end() ? std::nullopt : std::optional(found->second);
}

void ShardedParameters::copy_own_to_host() const {
  if (!copies_) return;
  std::vector<torch::Tensor> to, from;
  for (const layout::Piece& piece : own()) {
    to.push_back(part_of(places_[piece.tensor], piece));
    from.push_back(part_of(parameters_[piece.tensor].tensor, piece));
  }
  copy_each(to, from);
}

void ShardedParameters::copy_others_to_device() const {
  if (!copies_) return;
  std::vector<torch::Tensor> to, from;
  for (std::size_t other = 0; other < pieces_.size(); ++other) {
    if (other == rank()) continue;
    for (const layout::Piece& piece : pieces_[other]) {
      to.push_back(part_of(parameters_[piece.tensor].tensor, piece));
      from.push_back(part_of(places_[piece.tensor], piece));
    }
  }
  copy_each(to, from);
}

}  // namespace asup::sync
