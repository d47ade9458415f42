// Gradients of which each rank has the averages of its part alone.
//
// A bucket leaves by reduce-scatter, in the order in which its last gradient comes; when the call
// has ended, nobody needs the bucket any more. Averages of a second backward before a step are
// added to those of the first. Each element is added up by one rank, by the plan that the
// communicator chooses; two ranks, and ranks that reach each other's memory, add as in an
// all-reduce.
//
// Under the lock of the collector whose buckets leave, but for part(), scale() and norm(), which
// the thread that trains calls between exchange and step.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/layout/shards.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

class ShardedGradients {
 public:
  // Collective. `buckets`: as the gradients are laid out; shards as ShardedParameters cuts them.
  ShardedGradients(Communicator& communicator, const std::vector<NamedTensor>& parameters,
                   std::vector<layout::Bucket> buckets, bool whole_tensors);

  // A round of buckets begins, the first of this step or one more.
  void begin(bool is_first);
  // Starts the call that averages a bucket, of all its gradients.
  Work start(std::size_t bucket, const Buffer& gradients);
  // All calls of the round have ended: what they brought counts times the factor.
  void end_round(double factor);

  // A piece of this rank's, as part_of() has its parameter's.
  torch::Tensor part(const layout::Piece& piece) const;
  void scale(double factor);
  // The norm of all ranks' parts together, with the bits of gradient_norm() of whole gradients.
  // Collective; the same on all. `has`: whether a parameter has a gradient.
  double norm(const std::vector<std::uint8_t>& has) const;

 private:
  Buffer own(std::size_t bucket) const { return own_in(*memory_, bucket); }
  Buffer own_in(SharedMemory& memory, std::size_t bucket) const;

  Communicator& communicator_;
  const std::vector<NamedTensor> parameters_;
  const std::vector<layout::Bucket> buckets_;
  std::vector<layout::Shards> shards_;
  std::vector<layout::Piece> pieces_;   // this rank's
  std::vector<std::uint64_t> offsets_;  // of a bucket's part in memory_, in bytes
  std::uint64_t bytes_ = 0;
  std::shared_ptr<SharedMemory> memory_;
  bool adds_ = false;                           // this round to those before
  std::shared_ptr<SharedMemory> still_to_add_;  // of such a round, once there was one
};

}  // namespace asup::sync
