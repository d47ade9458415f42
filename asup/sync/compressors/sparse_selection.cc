#include "asup/sync/compressors/sparse_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace asup::sync {
namespace {

// Runs of neighbours are sampled, a cache line each: all of a few numbers, one in 64 of many.
constexpr std::size_t kRun = 16, kFew = 1 << 14, kLongestStride = 64;
// More are looked for than may travel, since a sample tells only so well; the least of them stay.
constexpr double kMore = 1.1;
constexpr std::size_t kRoom = 4;

bool is_above(float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

// Runs that begin at another place in each exchange.
std::size_t first_run(std::uint64_t exchange, std::size_t every) {
  return static_cast<std::size_t>(exchange * 0x9e3779b97f4a7c15 >> 33) % every;
}

// u ← m u + g, v ← v + u; Nesterov's u ← m (u + g), v ← v + u + g.
kernels::Accumulation accumulation(const std::optional<TakenMomentum>& momentum) {
  if (!momentum) return {};
  const auto m = static_cast<float>(momentum->momentum);
  return momentum->nesterov ? kernels::Accumulation{m, m, 1, 1} : kernels::Accumulation{m, 1, 1, 0};
}

}  // namespace

SparseSelection::SparseSelection(const std::optional<TakenMomentum>& momentum)
    : how_(accumulation(momentum)) {}

// What the kernel computes, at one place.
float SparseSelection::accumulated(const Numbers& numbers, std::size_t i) const {
  const float g = numbers.gradient[i];
  float v = numbers.sum.before[i];
  if (const float* u = numbers.momentum.before)
    v += how_.through * (how_.carry * u[i] + how_.gain * g);
  return v + how_.direct * g;
}

// The least magnitude that travels: NaN, which has no place in an order, is above all others.
float SparseSelection::least(const Numbers& numbers, std::uint64_t exchange) {
  const std::size_t runs = (numbers.count + kRun - 1) / kRun;
  const std::size_t every = std::clamp<std::size_t>(numbers.count / kFew, 1, kLongestStride);
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

std::span<const std::uint32_t> SparseSelection::select(const Numbers& numbers,
                                                       std::uint64_t exchange) {
  found_.resize(kRoom * numbers.most);
  if (numbers.count == 0) return found_;
  const std::size_t found =
      kernels::accumulate(how_, numbers.gradient, numbers.momentum, numbers.sum, numbers.count,
                          least(numbers, exchange), found_.data(), found_.size());
  if (found > found_.size())
    find_in_all(numbers);
  else
    found_.resize(found);
  if (found_.size() <= numbers.most) return found_;
  const float* sum = numbers.sum.after;
  std::nth_element(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(numbers.most),
                   found_.end(), [sum](std::uint32_t a, std::uint32_t b) {
                     return is_above(std::abs(sum[a]), std::abs(sum[b]));
                   });
  found_.resize(numbers.most);
  std::sort(found_.begin(), found_.end());
  return found_;
}

// Where the sample was of small numbers, and far too many were found.
void SparseSelection::find_in_all(const Numbers& numbers) {
  const float* sum = numbers.sum.after;
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

}  // namespace asup::sync
