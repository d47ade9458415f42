// The verifier's own parts.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "asup/collective/verify/contributions.h"
#include "asup/collective/verify/interval_map.h"

namespace asup::collective::proof {
namespace {

TEST(IntervalMap, AgreesWithAnArray) {
  std::mt19937 random(1);
  const std::size_t size = 50;
  IntervalMap<int> map(size, 0);
  std::vector<int> array(size, 0);
  for (int i = 1; i < 2000; ++i) {
    const std::size_t a = random() % (size + 1), b = random() % (size + 1);
    const std::size_t begin = std::min(a, b), end = std::max(a, b);
    if (random() % 2) {
      std::vector<IntervalMap<int>::Run> runs;
      for (std::size_t at = begin; at < end; at += 1 + random() % 20) {
        runs.push_back({at, i + static_cast<int>(random() % 3)});
        std::fill(array.begin() + at, array.begin() + end, runs.back().value);
      }
      map.assign(begin, end, runs);
    } else {
      map.change(begin, end, [](std::size_t, std::size_t, int& value) { value += 1; });
      for (std::size_t at = begin; at < end; ++at) array[at] += 1;
    }
    std::size_t next = begin;
    map.visit(begin, end, [&](std::size_t from, std::size_t to, int value) {
      EXPECT_EQ(from, next);
      for (next = from; next < to; ++next) EXPECT_EQ(array[next], value);
    });
    EXPECT_EQ(next, end);
  }
}

TEST(IntervalMap, MayBeEmpty) {
  IntervalMap<int> map(0, 7);
  map.assign(0, 0, {});
  map.visit(0, 0, [](std::size_t, std::size_t, int) { FAIL(); });
}

TEST(Contributions, SumsCommuteButDoNotAssociate) {
  Contributions terms(3);
  const auto a = terms.input(0), b = terms.input(1), c = terms.input(2);
  EXPECT_EQ(terms.add(a, b), terms.add(b, a));
  EXPECT_NE(terms.add(terms.add(a, b), c), terms.add(a, terms.add(b, c)));
  EXPECT_NE(terms.add(a, b), terms.extend(a, b));
}

TEST(Contributions, KnowTheirRanks) {
  Contributions terms(130);
  auto sum = terms.input(0);
  for (int rank = 1; rank < 130; ++rank) {
    EXPECT_FALSE(terms.is_complete(sum));
    EXPECT_EQ(terms.common_rank(sum, terms.input(rank)), std::nullopt);
    sum = terms.add(sum, terms.input(rank));
    EXPECT_EQ(terms.common_rank(sum, terms.input(rank)), rank);
  }
  EXPECT_TRUE(terms.is_complete(sum));
  EXPECT_FALSE(terms.is_finished(sum));
  EXPECT_TRUE(terms.is_finished(terms.finish(sum)));
  EXPECT_TRUE(terms.is_complete(terms.finish(sum)));
}

TEST(Contributions, AreDescribedByRanks) {
  Contributions terms(130);
  EXPECT_EQ(terms.describe(terms.input(128)), "rank 128");
  auto sum = terms.add(terms.input(0), terms.input(2));
  sum = terms.add(sum, terms.add(terms.input(3), terms.input(4)));
  EXPECT_EQ(terms.describe(sum), "ranks 0, 2-4");
  EXPECT_EQ(terms.describe(Contributions::kNothing), "no rank");
}

}  // namespace
}  // namespace asup::collective::proof
