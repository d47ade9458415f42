#include "asup/data/own_part.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::data {

OwnPart::OwnPart(std::size_t samples, std::uint64_t seed, int rank, int ranks)
    : global_order_(samples, seed),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      size_(part_of(samples, rank_, ranks_).size()) {
  require(samples >= ranks_, "{} samples leave some of the {} workers without one", samples, ranks);
}

OwnPart::Portion OwnPart::next(std::uint64_t done, std::size_t count) {
  Portion portion{done / size_, {}};
  if (epoch_ != portion.epoch) {
    order_ = global_order_.order(portion.epoch);
    epoch_ = portion.epoch;
  }
  const std::size_t first = done % size_;
  const std::size_t last = first + count + 1 == size_ ? size_ : std::min(size_, first + count);
  for (std::size_t i = first; i < last; ++i) portion.indices.push_back(order_[rank_ + i * ranks_]);
  return portion;
}

}  // namespace asup::data
