#include "asup/ps/coded_difference.h"

#include <algorithm>
#include <array>

namespace asup::ps {
namespace {

// Elements that stay in the cache from one pass to the next.
constexpr std::uint64_t kAtOnce = 4 * kernels::kCodeBlock;

}  // namespace

CodedDifference::CodedDifference(const CodedParts& coded, Range shard,
                                 std::shared_ptr<Shadow> shadow, std::span<const Range> ranges)
    : code_(coded.code), first_(shard.begin), shadow_(std::move(shadow)) {
  std::size_t bytes = 0;
  for (const Range& range : ranges)
    for (const CodedParts::Piece& piece : coded.cut(range)) {
      if (!piece.coded) continue;
      pieces_.push_back({piece.range, bytes});
      bytes += coded.bytes_of(piece.range);
    }
  bytes_.resize(bytes);
}

void CodedDifference::encode(std::size_t piece, const float* parameters) {
  const auto& [range, offset] = pieces_[piece];
  std::array<float, kAtOnce> difference;
  std::byte* to = bytes_.data() + offset;
  for (std::uint64_t at = range.begin; at < range.end; at += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, range.end - at);
    const float* from = parameters + (at - first_);
    float* shadow = shadow_->values.data() + (at - first_);
    for (std::size_t i = 0; i < count; ++i) difference[i] = from[i] - shadow[i];
    kernels::encode(code_, to, difference.data(), count, {.decoded = difference.data()});
    for (std::size_t i = 0; i < count; ++i) shadow[i] += difference[i];
    to += kernels::coded_bytes(code_, count);
  }
}

net::ConstBytes CodedDifference::bytes(std::size_t piece) const {
  const auto& [range, offset] = pieces_[piece];
  return std::span(bytes_).subspan(offset, kernels::coded_bytes(code_, range.size()));
}

}  // namespace asup::ps
