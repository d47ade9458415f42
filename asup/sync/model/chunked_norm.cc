#include "asup/sync/model/chunked_norm.h"

#include <algorithm>
#include <numeric>

#include "asup/base/error.h"
#include "asup/kernels/update.h"

namespace asup::sync {
namespace {

constexpr std::size_t kChunk = layout::kShardChunk;

double squares_in(const float* data, std::size_t count) {
  return kernels::sum_of_squares(data, count);
}

double squares_in(const double* data, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += data[i] * data[i];
  return sum;
}

template <typename Element>
void add_chunks(const Element* data, std::size_t count, double* sums) {
  for (std::size_t begin = 0; begin < count; begin += kChunk)
    *sums++ = squares_in(data + begin, std::min(kChunk, count - begin));
}

}  // namespace

ChunkSums::ChunkSums(const std::vector<NamedTensor>& parameters) {
  std::size_t chunks = 0;
  for (const auto& [name, tensor] : parameters) {
    first_.push_back(chunks);
    chunks += (static_cast<std::size_t>(tensor.numel()) + kChunk - 1) / kChunk;
  }
  sums_.resize(chunks);
}

void ChunkSums::add(std::size_t parameter, std::uint64_t offset, const torch::Tensor& gradient) {
  check(offset % kChunk == 0 && gradient.is_non_overlapping_and_dense(),
        "a part of a gradient ({}) begins after {} elements, in a chunk, or has gaps",
        describe(gradient), offset);
  double* const sums = sums_.data() + first_[parameter] + offset / kChunk;
  const auto count = static_cast<std::size_t>(gradient.numel());
  if (gradient.scalar_type() == torch::kFloat32)
    return add_chunks(gradient.const_data_ptr<float>(), count, sums);
  const torch::Tensor wide = gradient.to(torch::kFloat64);
  add_chunks(wide.const_data_ptr<double>(), count, sums);
}

double ChunkSums::sum() const { return std::accumulate(sums_.begin(), sums_.end(), 0.0); }

}  // namespace asup::sync
