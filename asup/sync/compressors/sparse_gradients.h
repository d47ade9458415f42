// Gradients of which only the largest numbers travel, a share of each bucket. What does not travel
// is kept, and added to the next gradient, until it is large enough.
//
// With a momentum it is deep gradient compression (Lin et al., Deep gradient compression, ICLR
// 2018). The momentum is on this side of the exchange then: what adds up is what an optimizer with
// momentum would have applied (momentum correction). A number that travels is forgotten with its
// momentum (factor masking). The share falls from a quarter as the run begins (warm-up).
//
// How large a number must be to travel is found in a sample of the bucket. Everybody gets what
// everybody chose, and adds it up in the order of ranks: all have the same bits. Where so many
// numbers would travel that they are fewer bytes by all-reduce, they go that way, with zeros
// between them.
//
// Used from one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/kernels/sparse.h"

namespace asup::sync {

struct Sparsity {
  double density = 0;        // the share that travels; 0: all does, and nothing here is used
  std::uint64_t warmup = 0;  // exchanges until the share is that
  bool has_momentum = false;
  double momentum = 0;
  bool nesterov = false;

  bool operator==(const Sparsity&) const = default;
};

// In an exchange, 0 first.
double density_in(const Sparsity& sparsity, std::uint64_t exchange);

class SparseGradients {
 public:
  SparseGradients(Communicator& communicator, const Sparsity& sparsity)
      : communicator_(communicator), sparsity_(sparsity) {}

  // A bucket leaves: of `sum` and `momentum` (nulls: there is none) what is kept goes from `before`
  // to `after`. Its memory is zeros until arrive(). `adds`: its gradient comes on top of what
  // another of this step has left there. Throws BadInput where it does and there is a momentum,
  // which that is no gradient for.
  Work leave(std::size_t bucket, Buffer gradients, kernels::Kept sum, kernels::Kept momentum,
             std::uint64_t exchange, bool adds);
  // Its call is done: the memory that left gets the average.
  void arrive(std::size_t bucket);

 private:
  struct Bucket {
    Buffer gradients;
    std::vector<std::byte> own, all;  // payloads; none where it travels by all-reduce
  };

  struct Numbers;

  kernels::Accumulation accumulation() const;
  static float accumulated(const Numbers& numbers, std::size_t i);
  float least(const Numbers& numbers, std::uint64_t exchange);
  void find(const Numbers& numbers, std::uint64_t exchange);
  void find_in_all(const float* sum, const Numbers& numbers);
  Work send(Bucket& bucket, const Numbers& numbers);

  Communicator& communicator_;
  const Sparsity sparsity_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> found_;  // places in the bucket that leaves
  std::vector<float> sample_;
};

}  // namespace asup::sync
