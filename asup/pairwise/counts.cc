#include "asup/pairwise/counts.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace asup::pairwise {

void Counts::set_samples(int worker, std::uint64_t samples) {
  auto& known = numbers_[static_cast<std::size_t>(worker)];
  known = std::max(known, samples);
}

void Counts::call_fence(std::uint64_t fence) { numbers_.back() = std::max(numbers_.back(), fence); }

std::uint64_t Counts::total() const {
  return std::accumulate(numbers_.begin(), numbers_.end() - 1, std::uint64_t{0});
}

std::vector<std::byte> Counts::bytes() const {
  const auto bytes = std::as_bytes(std::span(numbers_));
  return {bytes.begin(), bytes.end()};
}

void Counts::learn(net::ConstBytes bytes) {
  if (bytes.size() != numbers_.size() * sizeof numbers_[0]) return;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, bytes.data() + i * sizeof theirs, sizeof theirs);
    numbers_[i] = std::max(numbers_[i], theirs);
  }
}

}  // namespace asup::pairwise
