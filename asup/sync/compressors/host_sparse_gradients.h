// Sparse gradients (sparse_gradients.h) where several ranks share a host: dense within it, by its
// memory, and sparse between hosts, of which each is what a rank is elsewhere.
//
// A bucket is cut into a block for each place on a host that all hosts have. The ranks of a host
// sum their gradients; each gets the sum of its place's block, has what is kept of it, momentum
// and all, and chooses what travels of it: memory and work are divided among them. Ranks of one
// place on all hosts exchange what they chose, then those of a host what has come. So each number
// travels between hosts once a host, however many ranks it has, and over as many links as there are
// places. Ranks beyond those places only add to the sum.
//
// All add up the same payloads in the same order: all have the same bits.
//
// Used from one thread at a time.
#pragma once

#include <deque>

#include "asup/sync/compressors/sparse_gradients.h"

namespace asup::sync {

class HostSparseGradients final : public Compressor {
 public:
  // needs: sparsity.hosts, the same on all ranks. Collective.
  HostSparseGradients(Communicator& communicator, const Sparsity& sparsity);

  std::string description() const override { return describe(sparsity_); }
  std::vector<std::string> keeps() const override { return kept_by(sparsity_); }
  layout::Range keeps_of(std::size_t count) const override { return block(count, place_); }
  void share_out(std::span<float> bucket, std::span<float> own) override;
  double unit_of(double own) override;
  bool takes_momentum() const override { return sparsity_.momentum.has_value(); }

  // Throws BadInput as SparseGradients does.
  Work leave(const Bucket& bucket) override;
  std::optional<Work> arrive(std::size_t bucket) override;
  int calls() const override { return 3; }
  std::uint64_t bytes_moved() const override;

 private:
  // A bucket on its way: summed within the host, where gradients are clipped measured, then between
  // hosts, then within the host again.
  enum class Stage { summing, measuring, crossing, gathering };
  struct Travelling {
    Bucket bucket;
    Stage stage = Stage::summing;
    Work work;  // of its stage
    std::unique_ptr<SharedMemory> memory;
    std::span<float> sum;         // in it: of the host, of this rank's block
    std::vector<double> squares;  // by tensor, summed over the host's blocks
    bool is_sparse = true;
    std::vector<std::byte> own, crossed, all;  // payloads: own, of its place, of all places
  };

  layout::Range block(std::size_t count, int place) const;
  std::vector<std::size_t> blocks(std::size_t count) const;
  std::size_t payload_of(const Travelling& bucket, int place) const;
  void make_room(Travelling& bucket, std::size_t count);
  void go_on();
  static bool has_come(Travelling& bucket);
  void measure(Travelling& bucket);
  void clip(Travelling& bucket) const;
  void cross(Travelling& bucket);
  void gather(Travelling& bucket);
  void unpack(Travelling& bucket) const;

  // Constant after construction.
  const Sparsity sparsity_;
  const int ranks_;  // of all hosts
  int hosts_ = 0;
  int places_ = 0;  // that every host has
  int place_ = 0;   // this rank's; beyond them it has no block

  SparseSelection selection_;
  std::vector<Travelling> buckets_;
  // In the order in which they have left: those that are not on their way between hosts yet, and
  // those that are.
  std::deque<std::size_t> waiting_, crossing_;

  // Go first, with the calls that use what is above. Of this host: sums, and what follows them,
  // since the two come in orders of their own. And of this place on all hosts.
  std::unique_ptr<Communicator> within_, after_, between_;
};

}  // namespace asup::sync
