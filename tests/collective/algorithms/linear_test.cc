#include "asup/collective/algorithms/linear.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

TEST(Linear, TheRootGathersAllBlocksAtOnce) {
  const Spec spec = {.collective = Collective::gather, .ranks = 3, .count = 30, .root = 1};
  EXPECT_EQ(linear_gather(1, spec).lanes,
            (std::vector<Lane>{
                {{recv(2, out(20, 30)), recv(0, out(0, 10))}, {copy(in(0, 10), out(10, 20))}}}));
  EXPECT_EQ(linear_gather(2, spec).lanes, (std::vector<Lane>{{{send(1, in(0, 10))}}}));
}

TEST(Linear, TheRootScattersAllBlocksAtOnce) {
  const Spec spec = {.collective = Collective::scatter, .ranks = 3, .count = 30, .root = 1};
  EXPECT_EQ(linear_scatter(1, spec).lanes,
            (std::vector<Lane>{
                {{send(2, in(20, 30)), send(0, in(0, 10))}, {copy(in(10, 20), out(0, 10))}}}));
  EXPECT_EQ(linear_scatter(2, spec).lanes, (std::vector<Lane>{{{recv(1, out(0, 10))}}}));
}

}  // namespace
}  // namespace asup::collective
