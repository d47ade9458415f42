// What an element holds, as a term over the ranks' inputs: which contributions went in, each
// exactly once, and in which order they were added. Equal terms have equal ids. One thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace asup::collective::proof {

class Contributions {
 public:
  using Id = std::uint32_t;
  static constexpr Id kNothing = 0;  // never written

  explicit Contributions(int ranks);

  Id input(int rank) const { return static_cast<Id>(1 + rank); }

  // a (+) b, which is b (+) a. needs: a and b have no rank in common
  Id add(Id a, Id b);
  // One more operand of a sum over several that rounds only at its end. needs: as for add
  Id extend(Id sum, Id next);
  // The complete sum after an average's division. needs: complete and not finished yet
  Id finish(Id sum);
  // What comes out of a code, which is not what went in.
  Id code(Id term);

  std::optional<int> common_rank(Id a, Id b) const;
  bool is_complete(Id id) const { return ranks_in(id) == ranks_; }
  bool is_finished(Id id) const { return finished_[id]; }

  // "ranks 0, 2-5"
  std::string describe(Id id) const;

 private:
  enum class Kind : std::uint8_t { sum, wide_sum, finished, coded };

  Id make(Kind kind, Id a, Id b);
  bool contains(Id id, int rank) const { return sets_[id * words_ + rank / 64] >> (rank % 64) & 1; }
  int ranks_in(Id id) const;

  const int ranks_;
  const std::size_t words_;                     // of a set of ranks
  std::vector<bool> finished_;                  // by id
  std::vector<std::uint64_t> sets_;             // by id, words_ each: the ranks whose input went in
  std::unordered_map<std::uint64_t, Id> made_;  // kind and operands to id
};

}  // namespace asup::collective::proof
