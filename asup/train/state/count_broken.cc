#include "asup/train/state/count_broken.h"

#include <set>

namespace asup::train {

std::int64_t count_broken(Communicator& communicator, const data::Dataset& dataset) {
  std::vector<std::int64_t> own = dataset.broken();
  auto most = static_cast<std::int64_t>(own.size());
  communicator.all_reduce(buffer_of(std::span(&most, 1)), ReduceOp::max).or_throw();
  if (most == 0) return 0;
  constexpr std::int64_t kNone = -1;
  own.resize(static_cast<std::size_t>(most), kNone);
  std::vector<std::int64_t> all(own.size() * static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(buffer_of(std::span(own)), buffer_of(std::span(all))).or_throw();
  std::set<std::int64_t> different(all.begin(), all.end());
  different.erase(kNone);
  return static_cast<std::int64_t>(different.size());
}

}  // namespace asup::train
