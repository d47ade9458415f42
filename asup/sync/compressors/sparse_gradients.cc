#include "asup/sync/compressors/sparse_gradients.h"

#include <cmath>
#include <set>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/sync/compressors/host_sparse_gradients.h"

namespace asup::sync {
namespace {

constexpr double kFirstDensity = 0.25;
constexpr std::size_t kLargeBucket = 1 << 20;

// Those who get each other's payloads: ranks, or hosts.
std::size_t senders(const Communicator& communicator, const Sparsity& sparsity) {
  if (sparsity.hosts.empty()) return static_cast<std::size_t>(communicator.size());
  return std::set<int>(sparsity.hosts.begin(), sparsity.hosts.end()).size();
}

// Where payloads are never less than all-reduce, also after the warm-up.
void say_if_dense(const Communicator& communicator, const Sparsity& sparsity) {
  const std::size_t all = senders(communicator, sparsity);
  const std::size_t most = most_of(sparsity, sparsity.warmup, kLargeBucket);
  if (is_less_when_sparse(sparsity, kLargeBucket, most, all)) return;
  std::size_t fits = most;
  while (fits > 1 && !is_less_when_sparse(sparsity, kLargeBucket, fits, all)) fits -= fits / 16 + 1;
  log().warn(
      "compress {} saves no bytes: each of {} {} gets what the others send, and with density {} "
      "that "
      "is more than an all-reduce of whole gradients, which is done instead. A density of {:.2g} "
      "would be less",
      sparsity.momentum ? "dgc" : "topk", all, sparsity.hosts.empty() ? "workers" : "hosts",
      sparsity.density, static_cast<double>(fits) / kLargeBucket);
}

std::unique_ptr<Compressor> make(const CompressorContext& context, const Sparsity& sparsity) {
  Communicator& communicator = context.communicator;
  if (communicator.rank() == 0 && !context.again) say_if_dense(communicator, sparsity);
  if (sparsity.hosts.empty()) return std::make_unique<SparseGradients>(communicator, sparsity);
  return std::make_unique<HostSparseGradients>(communicator, sparsity);
}

}  // namespace

double density_in(const Sparsity& sparsity, std::uint64_t exchange) {
  if (exchange >= sparsity.warmup || sparsity.density >= kFirstDensity) return sparsity.density;
  const double done = static_cast<double>(exchange) / static_cast<double>(sparsity.warmup);
  return kFirstDensity * std::pow(sparsity.density / kFirstDensity, done);
}

std::size_t most_of(const Sparsity& sparsity, std::uint64_t exchange, std::size_t count) {
  return static_cast<std::size_t>(
      std::ceil(density_in(sparsity, exchange) * static_cast<double>(count)));
}

bool is_less_when_sparse(const Sparsity& sparsity, std::size_t count, std::size_t most,
                         std::size_t senders) {
  return payload_bytes(count, most, sparsity.as) * senders <= 2 * count * sizeof(float);
}

std::string describe(const Sparsity& sparsity) {
  return fmt::format("{}{}, density {}, warm-up {}, clip-norm {}",
                     sparsity.momentum ? "dgc" : "topk",
                     sparsity.hosts.empty() ? "" : " of each host", sparsity.density,
                     sparsity.warmup, sparsity.clip_norm);
}

std::vector<std::string> kept_by(const Sparsity& sparsity) {
  return sparsity.momentum ? kept_with_momentum() : std::vector<std::string>{""};
}

CompressorFactory topk(const Sparsity& sparsity) {
  return [sparsity](const CompressorContext& context) { return make(context, sparsity); };
}

CompressorFactory dgc(const Sparsity& sparsity) {
  return [sparsity](const CompressorContext& context) {
    Sparsity with_momentum = sparsity;
    with_momentum.momentum = momentum_to_take(context.optimizer, "compress dgc");
    return make(context, with_momentum);
  };
}

Work SparseGradients::leave(const Bucket& bucket) {
  if (takes_momentum()) require_one_backward(bucket);
  if (buckets_.size() <= bucket.index) buckets_.resize(bucket.index + 1);
  if (sparsity_.clip_norm > 0) clip_parts(bucket, sparsity_.clip_norm, communicator_.size());
  const std::size_t count = bucket.gradients.count;
  const SparseSelection::Numbers numbers{
      .gradient = static_cast<float*>(bucket.gradients.data),
      .momentum = takes_momentum() ? bucket.kept[1] : kernels::Kept{},
      .sum = bucket.kept[0],
      .count = count,
      .most = most_of(sparsity_, bucket.exchange, count)};
  Travelling& travelling = buckets_[bucket.index];
  travelling.gradients = bucket.gradients;
  return send(travelling, numbers, selection_.select(numbers, bucket.exchange));
}

// By all-reduce a rank sends 2 (n − 1)/n times the whole, as payloads n − 1 times its own.
Work SparseGradients::send(Travelling& bucket, const SparseSelection::Numbers& numbers,
                           std::span<const std::uint32_t> found) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const bool is_sparse = is_less_when_sparse(sparsity_, numbers.count, numbers.most, ranks);
  const std::size_t bytes =
      is_sparse ? payload_bytes(numbers.count, numbers.most, sparsity_.as) : 0;
  fit(bucket.own, bytes);
  fit(bucket.all, bytes * ranks);
  if (is_sparse) pack(numbers.sum.after, numbers.count, found, bucket.own, sparsity_.as);
  for (const std::uint32_t place : found) {
    if (!is_sparse) numbers.gradient[place] = std::exchange(numbers.sum.after[place], 0.0F);
    if (numbers.momentum.after) numbers.momentum.after[place] = 0;
  }
  if (!is_sparse) return communicator_.start_all_reduce(bucket.gradients, ReduceOp::average);
  Call call;
  call.collective = collective::Collective::all_gather;
  call.input = {bucket.own.data(), bytes, Dtype::u8};
  call.output = {bucket.all.data(), bytes * ranks, Dtype::u8};
  return communicator_.start(std::move(call));
}

std::optional<Work> SparseGradients::arrive(std::size_t index) {
  Travelling& bucket = buckets_[index];
  const std::size_t bytes = bucket.own.size();
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  for (std::size_t rank = 0; bytes > 0 && rank < ranks; ++rank)
    add_unpacked(static_cast<float*>(bucket.gradients.data), bucket.gradients.count,
                 std::span(bucket.all).subspan(rank * bytes, bytes), 1 / static_cast<float>(ranks),
                 sparsity_.as);
  return std::nullopt;
}

}  // namespace asup::sync
