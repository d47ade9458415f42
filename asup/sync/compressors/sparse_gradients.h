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

#include "asup/sync/compressors/compressor.h"
#include "asup/sync/compressors/sparse_payload.h"
#include "asup/sync/compressors/taken_momentum.h"

namespace asup::sync {

struct Sparsity {
  double density = 0.001;    // the share that travels
  std::uint64_t warmup = 0;  // exchanges until the share is that
  std::optional<TakenMomentum> momentum{};
  // Above 0: each rank's part of a tensor's average, its gradient by n, is scaled down to the norm
  // clip_norm/√n before it is added up, which leaves that of the average at clip_norm or so where
  // ranks know nothing of each other's.
  double clip_norm = 0;
  SparseNumbers as = SparseNumbers::f32;  // what travels
};

// Without a momentum, and with that of the optimizer, which must be SGD.
CompressorFactory topk(const Sparsity& sparsity);
CompressorFactory dgc(const Sparsity& sparsity);

// In an exchange, 0 first.
double density_in(const Sparsity& sparsity, std::uint64_t exchange);

class SparseGradients final : public Compressor {
 public:
  SparseGradients(Communicator& communicator, const Sparsity& sparsity)
      : communicator_(communicator), sparsity_(sparsity) {}

  std::string description() const override;
  std::vector<std::string> keeps() const override;
  bool takes_momentum() const override { return sparsity_.momentum.has_value(); }

  // The bucket's memory is zeros until arrive(). Throws BadInput where there is a momentum, and the
  // bucket adds to another of the same step: that is no gradient for it.
  Work leave(const Bucket& bucket) override;
  std::optional<Work> arrive(std::size_t bucket) override;

 private:
  struct Travelling {
    Buffer gradients;
    std::vector<std::byte> own, all;  // payloads; none where it travels by all-reduce
  };

  struct Numbers;

  void clip(const Bucket& bucket) const;
  kernels::Accumulation accumulation() const;
  static float accumulated(const Numbers& numbers, std::size_t i);
  float least(const Numbers& numbers, std::uint64_t exchange);
  void find(const Numbers& numbers, std::uint64_t exchange);
  void find_in_all(const float* sum, const Numbers& numbers);
  Work send(Travelling& bucket, const Numbers& numbers);

  Communicator& communicator_;
  const Sparsity sparsity_;
  std::vector<Travelling> buckets_;
  std::vector<std::uint32_t> found_;  // places in the bucket that leaves
  std::vector<float> sample_;
};

}  // namespace asup::sync
