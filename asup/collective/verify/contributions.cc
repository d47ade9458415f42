#include "asup/collective/verify/contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "asup/base/error.h"

namespace asup::collective::proof {

Contributions::Contributions(int ranks)
    : ranks_(ranks),
      words_((ranks + 63) / 64),
      finished_(ranks + 1, false),
      sets_((ranks + 1) * words_) {
  for (int rank = 0; rank < ranks; ++rank) {
    sets_[input(rank) * words_ + rank / 64] = std::uint64_t{1} << (rank % 64);
  }
}

Contributions::Id Contributions::add(Id a, Id b) {
  return make(Kind::sum, std::min(a, b), std::max(a, b));
}
Contributions::Id Contributions::extend(Id sum, Id next) { return make(Kind::wide_sum, sum, next); }
Contributions::Id Contributions::finish(Id sum) { return make(Kind::finished, sum, kNothing); }
Contributions::Id Contributions::code(Id term) { return make(Kind::coded, term, kNothing); }

Contributions::Id Contributions::make(Kind kind, Id a, Id b) {
  constexpr Id kLimit = 1u << 30;  // so that kind and two ids fit in 64 bits
  check(finished_.size() < kLimit, "the plans of {} ranks have too many different sums to verify",
        ranks_);
  const std::uint64_t kind_bits = static_cast<std::uint64_t>(kind) << 60;
  const auto [found, fresh] =
      made_.try_emplace(kind_bits | std::uint64_t{a} << 30 | b, static_cast<Id>(finished_.size()));
  if (!fresh) return found->second;
  finished_.push_back(kind == Kind::finished || (kind == Kind::coded && finished_[a]));
  for (std::size_t w = 0; w < words_; ++w) {
    sets_.push_back(sets_[a * words_ + w] | sets_[b * words_ + w]);
  }
  return found->second;
}

std::optional<int> Contributions::common_rank(Id a, Id b) const {
  for (std::size_t w = 0; w < words_; ++w) {
    const std::uint64_t both = sets_[a * words_ + w] & sets_[b * words_ + w];
    if (both) return static_cast<int>(w * 64 + std::countr_zero(both));
  }
  return std::nullopt;
}

int Contributions::ranks_in(Id id) const {
  int count = 0;
  for (std::size_t w = 0; w < words_; ++w) count += std::popcount(sets_[id * words_ + w]);
  return count;
}

std::string Contributions::describe(Id id) const {
  std::string text;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!contains(id, rank)) continue;
    int last = rank;
    while (last + 1 < ranks_ && contains(id, last + 1)) ++last;
    text += text.empty() ? "" : ", ";
    text += rank == last ? fmt::format("{}", rank) : fmt::format("{}-{}", rank, last);
    rank = last;
  }
  if (text.empty()) return "no rank";
  return (ranks_in(id) == 1 ? "rank " : "ranks ") + text;
}

}  // namespace asup::collective::proof
