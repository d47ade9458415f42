#include "asup/collective/algorithms/owners.h"

#include <gmock/gmock.h>

#include "asup/collective/plan/build.h"
#include "asup/kernels/code.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using kernels::kCodeBlock;
using testing::elements_sent;
using testing::plans_of;

TEST(Owners, TwoRanksEncodeSumEncodeAndDecode) {
  const Spec spec = {.ranks = 2, .count = 3 * kCodeBlock};  // two blocks of the code are rank 0's
  const std::size_t one = kCodeBlock, two = 2 * kCodeBlock, three = 3 * kCodeBlock;
  const Plan plan = owners_all_reduce(0, spec);
  const AreaRange leaving = coded(two, three), part = coded(4 * two, 5 * two);
  const AreaRange sum = coded(2 * two, 3 * two), theirs = coded(3 * two, 3 * two + one);
  EXPECT_EQ(plan.lanes, (std::vector<Lane>{{{copy(in(two, three), leaving)},
                                            {send(1, leaving), recv(1, part)},
                                            {reduce_parts(part, in(0, two), out(0, two)),
                                             copy(out(0, two), sum), copy(sum, out(0, two))},
                                            {send(1, sum), recv(1, theirs)},
                                            {copy(theirs, out(two, three))}}}))
      << describe(plan);
  EXPECT_EQ(plan.coded, 6 * two);
}

TEST(Owners, EachSendsItsPartsToTheirOwnersAndItsSumToAll) {
  const Spec spec = {.ranks = 8, .count = 64 * kCodeBlock};
  const Plan plan = owners_all_reduce(3, spec);
  EXPECT_EQ(elements_sent(plan), 2 * 7 * 8 * kCodeBlock);
  EXPECT_EQ(plan.lanes.size(), 1u);
  EXPECT_EQ(plan.lanes[0].size(), 5u);
}

TEST(Owners, LargeCallsGoInPiecesWhoseRoomIsUsedAgain) {
  const Spec spec = {.ranks = 4, .count = 1'000'000, .slice = 1 << 12};
  const Plan plan = owners_all_reduce(3, spec);
  EXPECT_EQ(plan.lanes.size(), static_cast<std::size_t>(kMaxLanes));
  EXPECT_LE(plan.coded, kMaxLanes * 3 * 4 * (2u << 12));
}

TEST(Owners, NoBlocksMayLieWithOneOwnerAlone) {
  const Spec spec = {.ranks = 5, .count = 7};
  EXPECT_FALSE(verify(spec, plans_of(find_algorithm(Collective::all_reduce, "owners"), spec)));
  EXPECT_EQ(elements_sent(owners_all_reduce(0, spec)), 4 * 7u);
  EXPECT_EQ(elements_sent(owners_all_reduce(4, spec)), 7u);
}

// What verifying knows of codes.

std::optional<Flaw> flaw_of(void (*change)(std::vector<Plan>&)) {
  const Spec spec = {.ranks = 2, .count = 3 * kCodeBlock};
  auto plans = plans_of(find_algorithm(Collective::all_reduce, "owners"), spec);
  change(plans);
  return verify(spec, plans);
}

TEST(Owners, AnOwnerThatKeepsItsSumAsItIsHasOtherBitsThanTheOthers) {
  const auto flaw = flaw_of([](std::vector<Plan>& plans) { plans[0].lanes[0][2].pop_back(); });
  ASSERT_TRUE(flaw);
  EXPECT_THAT(describe(*flaw), ::testing::HasSubstr("last bits may differ"));
}

TEST(Owners, NumbersInCodeAreNotReceivedAsNumbers) {
  const auto flaw = flaw_of([](std::vector<Plan>& plans) {
    plans[0].lanes[0][3][1].dst = out(2 * kCodeBlock, 3 * kCodeBlock);
    plans[0].lanes[0].pop_back();
  });
  ASSERT_TRUE(flaw);
  EXPECT_THAT(describe(*flaw), ::testing::HasSubstr("only one of sender and receiver"));
}

TEST(Owners, BlocksOfACodeAreWhole) {
  const auto flaw = flaw_of([](std::vector<Plan>& plans) {
    plans[0].coded += 1;
    for (Round& round : plans[0].lanes[0])
      for (Step& step : round)
        for (AreaRange* range : {&step.src, &step.dst})
          if (range->area == Area::coded) *range = coded(range->begin + 1, range->end + 1);
  });
  ASSERT_TRUE(flaw);
  EXPECT_THAT(describe(*flaw), ::testing::HasSubstr("inside a block of the code"));
}

TEST(Owners, NothingIsAddedToACodeOnItsWay) {
  const auto flaw = flaw_of([](std::vector<Plan>& plans) {
    Step& step = plans[0].lanes[0][1][1];
    step = recv_reduce(1, step.dst, step.dst, false);
  });
  ASSERT_TRUE(flaw);
  EXPECT_THAT(describe(*flaw), ::testing::HasSubstr("no step on numbers in code"));
}

}  // namespace
}  // namespace asup::collective
