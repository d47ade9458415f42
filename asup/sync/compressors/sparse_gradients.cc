#include "asup/sync/compressors/sparse_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "asup/base/error.h"
#include "asup/kernels/update.h"

namespace asup::sync {
namespace {

constexpr double kFirstDensity = 0.25;
// Runs of neighbours are sampled, a cache line each: all of a small bucket, one in 64 of a large
// one.
constexpr std::size_t kRun = 16, kSmallBucket = 1 << 14, kLongestStride = 64;
// More are looked for than may travel, since a sample tells only so well; the least of them stay.
constexpr double kMore = 1.1;
constexpr std::size_t kRoom = 4;

// A warm-up needs much more than what follows it.
template <typename T>
void fit(std::vector<T>& values, std::size_t size) {
  if (values.capacity() > 2 * size) values = {};
  values.resize(size);
}

bool is_above(float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

// Runs that begin at another place in each exchange.
std::size_t first_run(std::uint64_t exchange, std::size_t every) {
  return static_cast<std::size_t>(exchange * 0x9e3779b97f4a7c15 >> 33) % every;
}

}  // namespace

// What is in the bucket that leaves, and what is kept of it.
struct SparseGradients::Numbers {
  kernels::Accumulation how;
  float* gradient;
  kernels::Kept momentum, sum;
  std::size_t count, most;  // of them, and that travel
};

// What the kernel computes, at one place.
float SparseGradients::accumulated(const Numbers& numbers, std::size_t i) {
  const float g = numbers.gradient[i];
  float v = numbers.sum.before[i];
  if (const float* u = numbers.momentum.before)
    v += numbers.how.through * (numbers.how.carry * u[i] + numbers.how.gain * g);
  return v + numbers.how.direct * g;
}

double density_in(const Sparsity& sparsity, std::uint64_t exchange) {
  if (exchange >= sparsity.warmup || sparsity.density >= kFirstDensity) return sparsity.density;
  const double done = static_cast<double>(exchange) / static_cast<double>(sparsity.warmup);
  return kFirstDensity * std::pow(sparsity.density / kFirstDensity, done);
}

CompressorFactory topk(const Sparsity& sparsity) {
  return [sparsity](const CompressorContext& context) {
    return std::make_unique<SparseGradients>(context.communicator, sparsity);
  };
}

CompressorFactory dgc(const Sparsity& sparsity) {
  return [sparsity](const CompressorContext& context) {
    Sparsity with_momentum = sparsity;
    with_momentum.momentum = momentum_to_take(context.optimizer);
    return std::make_unique<SparseGradients>(context.communicator, with_momentum);
  };
}

std::string SparseGradients::description() const {
  return fmt::format("{}, density {}, warm-up {}, clip-norm {}", takes_momentum() ? "dgc" : "topk",
                     sparsity_.density, sparsity_.warmup, sparsity_.clip_norm);
}

// Sums of momenta are not for those who keep sums of gradients.
std::vector<std::string> SparseGradients::keeps() const {
  if (!takes_momentum()) return {""};
  return {"sum of momenta of ", "momentum of "};
}

// u ← m u + g, v ← v + u; Nesterov's u ← m (u + g), v ← v + u + g.
kernels::Accumulation SparseGradients::accumulation() const {
  if (!sparsity_.momentum) return {};
  const auto m = static_cast<float>(sparsity_.momentum->momentum);
  return sparsity_.momentum->nesterov ? kernels::Accumulation{m, m, 1, 1}
                                      : kernels::Accumulation{m, 1, 1, 0};
}

Work SparseGradients::leave(const Bucket& bucket) {
  require(!bucket.adds || !takes_momentum(),
          "compress dgc has a momentum for each step, and this step has a second backward(): put "
          "all but the last into a NoSync scope");
  if (buckets_.size() <= bucket.index) buckets_.resize(bucket.index + 1);
  if (sparsity_.clip_norm > 0) clip(bucket);
  const std::size_t count = bucket.gradients.count;
  const Numbers numbers{.how = accumulation(),
                        .gradient = static_cast<float*>(bucket.gradients.data),
                        .momentum = takes_momentum() ? bucket.kept[1] : kernels::Kept{},
                        .sum = bucket.kept[0],
                        .count = count,
                        .most = static_cast<std::size_t>(std::ceil(
                            density_in(sparsity_, bucket.exchange) * static_cast<double>(count)))};
  find(numbers, bucket.exchange);
  Travelling& travelling = buckets_[bucket.index];
  travelling.gradients = bucket.gradients;
  return send(travelling, numbers);
}

void SparseGradients::clip(const Bucket& bucket) const {
  const auto ranks = static_cast<double>(communicator_.size());
  const double most = sparsity_.clip_norm / std::sqrt(ranks) * ranks * bucket.unit;
  for (const layout::Layout::Tensor& tensor : bucket.tensors) {
    const std::span numbers(static_cast<float*>(bucket.gradients.data) + tensor.range.begin,
                            static_cast<std::size_t>(tensor.range.size()));
    const double norm = std::sqrt(kernels::sum_of_squares(numbers.data(), numbers.size()));
    if (!std::isfinite(norm) || norm <= most) continue;
    const auto factor = static_cast<float>(most / norm);
    for (float& number : numbers) number *= factor;
  }
}

// The least magnitude that travels: NaN, which has no place in an order, is above all others.
float SparseGradients::least(const Numbers& numbers, std::uint64_t exchange) {
  const std::size_t runs = (numbers.count + kRun - 1) / kRun;
  const std::size_t every =
      std::clamp<std::size_t>(numbers.count / kSmallBucket, 1, kLongestStride);
  sample_.clear();
  for (std::size_t run = first_run(exchange, every); run < runs; run += every)
    for (std::size_t i = run * kRun; i < std::min(numbers.count, (run + 1) * kRun); ++i)
      sample_.push_back(std::abs(accumulated(numbers, i)));
  const double share = static_cast<double>(numbers.most) / static_cast<double>(numbers.count);
  const auto place =
      std::min(static_cast<std::size_t>(kMore * share * static_cast<double>(sample_.size())),
               sample_.size() - 1);
  const auto at = sample_.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(sample_.begin(), at, sample_.end(), is_above);
  return std::isnan(*at) ? 1 : std::max(*at, std::numeric_limits<float>::min());
}

// Where the largest of the sums are, ascending.
void SparseGradients::find(const Numbers& numbers, std::uint64_t exchange) {
  found_.resize(kRoom * numbers.most);
  const std::size_t found =
      kernels::accumulate(numbers.how, numbers.gradient, numbers.momentum, numbers.sum,
                          numbers.count, least(numbers, exchange), found_.data(), found_.size());
  const float* sum = numbers.sum.after;
  if (found > found_.size())
    find_in_all(sum, numbers);
  else
    found_.resize(found);
  if (found_.size() <= numbers.most) return;
  std::nth_element(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(numbers.most),
                   found_.end(), [sum](std::uint32_t a, std::uint32_t b) {
                     return is_above(std::abs(sum[a]), std::abs(sum[b]));
                   });
  found_.resize(numbers.most);
  std::sort(found_.begin(), found_.end());
}

// Where the sample was of small numbers, and far too many were found.
void SparseGradients::find_in_all(const float* sum, const Numbers& numbers) {
  sample_.assign(sum, sum + numbers.count);
  for (float& number : sample_) number = std::abs(number);
  const auto at = sample_.begin() + static_cast<std::ptrdiff_t>(numbers.most - 1);
  std::nth_element(sample_.begin(), at, sample_.end(), is_above);
  found_.clear();
  for (std::size_t i = 0; i < numbers.count; ++i)
    if (!is_above(*at, std::abs(sum[i])) && sum[i] != 0)
      found_.push_back(static_cast<std::uint32_t>(i));
  sample_ = {};
}

// By all-reduce a rank sends 2 (n − 1)/n times the whole, as payloads n − 1 times its own.
Work SparseGradients::send(Travelling& bucket, const Numbers& numbers) {
  const auto ranks = static_cast<std::size_t>(communicator_.size());
  const std::size_t bytes = payload_bytes(numbers.count, numbers.most, sparsity_.as);
  const bool is_sparse = bytes * ranks <= 2 * numbers.count * sizeof(float);
  fit(bucket.own, is_sparse ? bytes : 0);
  fit(bucket.all, is_sparse ? bytes * ranks : 0);
  if (is_sparse) pack(numbers.sum.after, numbers.count, found_, bucket.own, sparsity_.as);
  for (const std::uint32_t place : found_) {
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
