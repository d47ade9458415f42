#include "asup/collective/algorithms/staged.h"

#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using testing::expect_proven;
using testing::plans_of;

const Algorithm& staged() { return find_algorithm(Collective::all_reduce, "staged"); }

TEST(Staged, TwoRanksByWayOfTheirStages) {
  const Spec spec = {.ranks = 2, .count = 100, .stage = true};
  const Plan plan = staged_all_reduce(1, spec);
  const Round meet = {send(0, {}), recv(0, {})};
  EXPECT_EQ(plan.lanes, (std::vector<Lane>{{{copy(in(0, 64), stage(0, 64))},
                                            meet,
                                            {peer_reduce(stage(64, 100), in(64, 100), out(64, 100)),
                                             copy(out(64, 100), stage(128, 164))},
                                            meet,
                                            {peer_read(0, stage(128, 192), out(0, 64))},
                                            meet}}))
      << describe(plan);
  EXPECT_EQ(plan.stage, 192u);
}

TEST(Staged, TheStageDoesNotGrowWithTheCount) {
  const Spec spec = {.ranks = 4, .count = 1'000'000, .stage = true, .slice = 1024};
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_LE(staged_all_reduce(rank, spec).stage, 2u * 5 * 2 * 1024);
  expect_proven(staged(), spec);
}

TEST(Staged, WithoutTheLastBarrierAStageMayBeReadTooLate) {
  const Spec spec = {.ranks = 2, .count = 100, .stage = true};
  auto plans = plans_of(staged(), spec);
  for (Plan& plan : plans) plan.lanes[0].pop_back();
  const auto flaw = verify(spec, plans);
  ASSERT_TRUE(flaw);
  EXPECT_EQ(flaw->round, 4);
  EXPECT_NE(flaw->what.find("which may have ended by then"), std::string::npos) << flaw->what;
}

TEST(Staged, NeedsAStageThatAllReach) {
  const Spec spec = {.ranks = 2, .count = 100, .stage = false};
  const auto flaw = verify(staged(), spec);
  ASSERT_TRUE(flaw);
  EXPECT_NE(flaw->what.find("these ranks share no stage"), std::string::npos) << flaw->what;
}

}  // namespace
}  // namespace asup::collective
