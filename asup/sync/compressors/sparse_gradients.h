// Gradients of which only the largest numbers travel, a share of each bucket. What does not travel
// is kept, and added to the next gradient, until it is large enough.
//
// With a momentum it is deep gradient compression (Lin et al., Deep gradient compression, ICLR
// 2018). The momentum is on this side of the exchange then: what adds up is what an optimizer with
// momentum would have applied (momentum correction). A number that travels is forgotten with its
// momentum (factor masking), but for what its code does not say. The share falls from a quarter as
// the run begins (warm-up).
//
// Everybody gets what everybody chose, and adds it up in the order of ranks: all have the same
// bits. Where so many numbers would travel that they are fewer bytes by all-reduce, they go that
// way, with zeros between them. Where several ranks share a host, one selection travels for all of
// them (host_sparse_gradients.h).
//
// Used from one thread at a time.
#pragma once

#include "asup/sync/compressors/compressor.h"
#include "asup/sync/compressors/sparse_payload.h"
#include "asup/sync/compressors/sparse_selection.h"

namespace asup::sync {

struct Sparsity {
  double density = 0.001;    // the share that travels
  std::uint64_t warmup = 0;  // exchanges until the share is that
  std::optional<TakenMomentum> momentum{};
  // Above 0: each rank's part of the average is clipped before it is added up (clip_parts()).
  double clip_norm = 0;
  // By rank, numbers of any kind: gradients are summed within each host, and what is said of a rank
  // is so of a host, √n too. Empty: each rank by itself.
  std::vector<int> hosts{};
  SparseNumbers as = SparseNumbers::bf16;  // what travels
};

// Without a momentum, and with that of the optimizer, which must be SGD.
CompressorFactory topk(const Sparsity& sparsity);
CompressorFactory dgc(const Sparsity& sparsity);

// In an exchange, 0 first.
double density_in(const Sparsity& sparsity, std::uint64_t exchange);
// Of so many numbers those that travel, at most.
std::size_t most_of(const Sparsity& sparsity, std::uint64_t exchange, std::size_t count);
// Whether payloads from so many, which each gets from all others, are fewer bytes than all-reduce.
bool is_less_when_sparse(const Sparsity& sparsity, std::size_t count, std::size_t most,
                         std::size_t senders);

// What compressors by it say of themselves, and what they refuse.
std::string describe(const Sparsity& sparsity);
std::vector<std::string> kept_by(const Sparsity& sparsity);

// Memory for what travels: a warm-up needs much more than what follows it.
template <typename T>
void fit(std::vector<T>& values, std::size_t size) {
  if (values.capacity() > 2 * size) values = {};
  values.resize(size);
}

class SparseGradients final : public Compressor {
 public:
  SparseGradients(Communicator& communicator, const Sparsity& sparsity)
      : communicator_(communicator), sparsity_(sparsity), selection_(sparsity.momentum) {}

  std::string description() const override { return describe(sparsity_); }
  std::vector<std::string> keeps() const override { return kept_by(sparsity_); }
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

  Work send(Travelling& bucket, const SparseSelection::Numbers& numbers,
            std::span<const std::uint32_t> found);

  Communicator& communicator_;
  const Sparsity sparsity_;
  SparseSelection selection_;
  std::vector<Travelling> buckets_;
};

}  // namespace asup::sync
