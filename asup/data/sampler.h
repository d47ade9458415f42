// The sampler for a program's own torch::data::make_data_loader:
//
//   make_data_loader(dataset, asup::Sampler(job, n), batch)     was: RandomSampler(n)
//
// With batch size b on each of N ranks, a step is the next N·b samples of one global order
// (data/sharding.h), of which rank r takes its own b. Every rank gets the same number of batches.
// Like torch's samplers it is used from one thread.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/data/sharding.h"
#include "asup/net/job.h"

namespace asup {

struct SamplerOptions {
  std::uint64_t seed = 0;  // the same on all ranks
  bool shuffle = true;
  // Where it begins: so many samples of this epoch were trained on before, by all ranks.
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  // `pad` and `drop` keep all ranks' batches equally long, so that the average over ranks is the
  // average over samples. With `keep` the last batch is shorter, by up to one sample more on some
  // ranks than on others, and never empty: what is missing comes from the start of the order. The
  // loader's own drop_last() must stay off then, or ranks disagree about the last batch.
  data::Remainder remainder = data::Remainder::pad;
  // The class of each sample: where given, classes are spread evenly over the order, so that each
  // rank's batches have of each about as many as all of them (data/stratified_order.h).
  std::vector<std::int64_t> labels{};
};

class Sampler : public torch::data::samplers::Sampler<> {
 public:
  Sampler(const Job& job, std::size_t size, SamplerOptions options = {})
      : Sampler(job.rank(), job.size(), size, std::move(options)) {}
  Sampler(int rank, int ranks, std::size_t size, SamplerOptions options = {});

  // Begins the next epoch, or the first where nothing was drawn yet (a data loader calls this as it
  // begins). Right after load() it goes on where the saved sampler stood.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;

  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  // Epoch and position. load() throws BadInput where the saved sampler had another size, seed or
  // number of ranks, or labels where this one has none. (A data loader with workers draws ahead of
  // what the program has seen.)
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

  std::uint64_t epoch() const { return epoch_; }
  // Begins an epoch of the caller's choice; a reset() that follows at once keeps it.
  void set_epoch(std::uint64_t epoch);

 private:
  void begin(std::uint64_t epoch, std::size_t position);

  std::size_t rank_, ranks_, size_;
  SamplerOptions options_;
  std::uint64_t epoch_ = 0;
  std::size_t position_ = 0;  // in the global order
  bool placed_ = true;        // the next reset() keeps epoch and position
  std::vector<std::int64_t> order_;
};

// For a test: each sample once, on one of the ranks, in order. Ranks get different numbers of
// samples where these cannot be dealt out evenly, and some may get none: figures are summed up over
// ranks (reduce_metrics), each with its count.
//
//   make_data_loader(dataset, asup::EvalSampler(job, n), batch)
class EvalSampler : public torch::data::samplers::Sampler<> {
 public:
  EvalSampler(const Job& job, std::size_t size) : EvalSampler(job.rank(), job.size(), size) {}
  EvalSampler(int rank, int ranks, std::size_t size);

  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::size_t rank_, ranks_, size_;
  std::size_t next_ = 0;  // of its own
};

}  // namespace asup
