#include "asup/collective/algorithms/hierarchical.h"

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::expect_proven;

const Algorithm& hierarchical() { return find_algorithm(Collective::all_reduce, "hierarchical"); }

// Ranks 0 and 1 on one host, 2 and 3 on another. Rank 1 has the upper half of its host's sum, and
// adds it up with rank 3.
TEST(Hierarchical, TwoHostsOfTwo) {
  const Spec spec = {.ranks = 4, .count = 256, .hosts = {0, 0, 1, 1}};
  EXPECT_EQ(hierarchical_all_reduce(1, spec).lanes,
            (std::vector<Lane>{
                {{send(0, in(0, 128)), recv_reduce(0, in(128, 256), out(128, 256), false)},
                 {send(3, out(192, 256)), recv_reduce(3, out(128, 192), out(128, 192), true)},
                 {send(3, out(128, 192)), recv(3, out(192, 256))},
                 {send(0, out(128, 256)), recv(0, out(0, 128))}}}));
}

TEST(Hierarchical, IsProvenForHostsOfAnyShape) {
  for (int n = 1; n <= 64; ++n) {
    for (const int each : {1, 2, 3, 8}) {
      for (const bool mixed : {false, true}) {
        Spec spec = testing::spec_for(hierarchical(), n, static_cast<std::size_t>(n) * 150 + 1);
        spec.in_place = mixed;
        for (int r = 0; r < n; ++r) spec.hosts.push_back(mixed ? r * 7 % each : r / each);
        expect_proven(hierarchical(), spec);
        spec.slice = 500;
        expect_proven(hierarchical(), spec);
        spec.count = 3;
        expect_proven(hierarchical(), spec);
      }
    }
  }
}

TEST(Hierarchical, HostsOfUnequalSizesAreProven) {
  for (const std::vector<int>& hosts :
       {std::vector{0, 1, 1}, std::vector{5, 5, 5, 5, 5, 5, -1}, std::vector{0, 1, 2, 1, 2, 2},
        std::vector{3, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1}}) {
    for (const bool in_place : {true, false}) {
      expect_proven(hierarchical(), {.ranks = static_cast<int>(hosts.size()),
                                     .count = 1000,
                                     .in_place = in_place,
                                     .slice = 128,
                                     .hosts = hosts});
    }
  }
}

TEST(Hierarchical, SendsLittleToOtherHosts) {
  const int n = 16, each = 4;
  Spec spec = {.ranks = n, .count = 16 * 64};
  for (int r = 0; r < n; ++r) spec.hosts.push_back(r / each);
  for (int r = 0; r < n; ++r) {
    std::size_t away = 0;
    for (const Lane& lane : hierarchical_all_reduce(r, spec).lanes)
      for (const Round& round : lane)
        for (const Step& step : round)
          if (step.op == Step::Op::send && step.peer / each != r / each) away += step.src.size();
    EXPECT_EQ(away, 2 * 3 * spec.count / 4 / each);
  }
}

TEST(Hierarchical, EveryRankMustHaveAHost) {
  EXPECT_THROW(require_valid({.ranks = 3, .count = 1, .hosts = {0, 0}}), BadInput);
}

}  // namespace
}  // namespace asup::collective
