#include "asup/gossip/progress_vector.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace asup::gossip {

void ProgressVector::set_samples(int worker, std::uint64_t samples) {
  auto& known = numbers_[static_cast<std::size_t>(worker)];
  known = std::max(known, samples);
}

void ProgressVector::call_round(std::uint64_t round) {
  numbers_.back() = std::max(numbers_.back(), round);
}

std::uint64_t ProgressVector::total() const {
  return std::accumulate(numbers_.begin(), numbers_.end() - 1, std::uint64_t{0});
}

std::vector<std::byte> ProgressVector::bytes() const {
  const auto bytes = std::as_bytes(std::span(numbers_));
  return {bytes.begin(), bytes.end()};
}

void ProgressVector::learn(net::ConstBytes bytes) {
  if (bytes.size() != numbers_.size() * sizeof numbers_[0]) return;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, bytes.data() + i * sizeof theirs, sizeof theirs);
    numbers_[i] = std::max(numbers_[i], theirs);
  }
}

}  // namespace asup::gossip
