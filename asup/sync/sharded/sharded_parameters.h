// A model's parameters, of which each rank keeps a part up to date: after a step, all get the
// others' parts, or each bucket when it is needed.
//
// While this lives, parameters on the CPU lie in memory that links reach, bucket after bucket, so
// that nobody copies them; their values, shapes and strides stay. Of those on a GPU, copies travel.
// Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/layout/shards.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

// A tensor's elements as they lie in memory, in one dimension. needs: no gaps
torch::Tensor flat(const torch::Tensor& tensor);
// The same elements, in the same memory, as a tensor of its own: all of them as they are, or some
// in a row. Of a matrix that is a matrix too, since some rules move vectors in another way.
torch::Tensor part_of(const torch::Tensor& tensor, const layout::Piece& piece);
// The tensor, or a copy that lies in memory as `like` does.
torch::Tensor lying_as(const torch::Tensor& tensor, const torch::Tensor& like);

class ShardedParameters {
 public:
  // Collective. The same buckets on all ranks. Throws BadInput for a parameter with gaps in memory.
  ShardedParameters(Communicator& communicator, std::vector<NamedTensor> parameters,
                    std::vector<layout::Bucket> buckets, bool whole_tensors);
  ~ShardedParameters();  // parameters have memory of their own again
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<layout::Bucket>& buckets() const { return buckets_; }
  const std::vector<layout::Shards>& shards() const { return shards_; }
  // What this rank keeps.
  const std::vector<layout::Piece>& own() const { return pieces_[rank()]; }
  // How many of a parameter's elements each rank keeps, in the order of its memory.
  std::vector<std::size_t> counts(std::size_t parameter) const;

  // All get what the others have made of their parts. Collective. Throws JobFailed; some parameters
  // have changed then and others have not.
  void gather();

  // The same of one bucket, beside the caller; on the CPU.
  Work start_gather(std::size_t bucket);
  // Gives the memory of the others' parts back: until they are gathered again, they are nothing.
  // needs: no gathering of it under way
  void forget_others(std::size_t bucket);
  // Where the parameter lies; and which one lies at an address, if any begins there.
  const torch::Tensor& place(std::size_t parameter) const { return places_[parameter]; }
  std::optional<std::size_t> parameter_at(const void* address) const;

 private:
  std::size_t rank() const { return static_cast<std::size_t>(communicator_.rank()); }
  void move_in();
  Call gathering(std::size_t bucket) const;
  void copy_own_to_host() const;
  void copy_others_to_device() const;

  Communicator& communicator_;
  const std::vector<NamedTensor> parameters_;
  std::vector<layout::Bucket> buckets_;
  std::vector<layout::Shards> shards_;
  std::vector<std::vector<layout::Piece>> pieces_;  // by rank
  std::shared_ptr<SharedMemory> memory_;
  std::vector<torch::Tensor> places_;  // in it, by parameter
  std::unordered_map<const void*, std::size_t> parameter_at_;
  bool copies_ = false;
};

}  // namespace asup::sync
