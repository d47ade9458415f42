// Plans that are deliberately wrong: each is refused, and the flaw says where.
#include "asup/collective/verify/verify.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using ::testing::HasSubstr;
using testing::plans_of;

using Plans = std::vector<Plan>;

// Three blocks of 64 elements. Rank r's ring sends block r, r - 1 (both reduce), r - 2, r (both
// gather).
const Spec kRing = {
    .collective = Collective::all_reduce, .ranks = 3, .count = 192, .in_place = false};
const Spec kDirect = {.collective = Collective::all_reduce,
                      .ranks = 3,
                      .count = 192,
                      .in_place = false,
                      .shared = true};

Plans plans_by(const Spec& spec, const char* name) {
  return plans_of(find_algorithm(spec.collective, name), spec);
}

void expect_flaw(const Spec& spec, const Plans& plans, const Flaw& expected) {
  const std::optional<Flaw> flaw = verify(spec, plans);
  ASSERT_TRUE(flaw) << "accepted, but: " << expected.what;
  EXPECT_EQ(flaw->rank, expected.rank) << describe(*flaw);
  EXPECT_EQ(flaw->lane, expected.lane) << describe(*flaw);
  EXPECT_EQ(flaw->round, expected.round) << describe(*flaw);
  EXPECT_EQ(flaw->step, expected.step) << describe(*flaw);
  EXPECT_EQ(flaw->range, expected.range) << describe(*flaw);
  EXPECT_THAT(flaw->what, HasSubstr(expected.what));
}

TEST(Verify, AFlawReadsLikeASentence) {
  EXPECT_EQ(describe(Flaw{1, 0, 2, 3, out(4, 8), "is wrong"}),
            "rank 1, lane 0, round 2, step 3, output[4, 8): is wrong");
  EXPECT_EQ(describe(Flaw{1, -1, -1, -1, out(4, 8), "is wrong"}), "rank 1, output[4, 8): is wrong");
}

TEST(Verify, RefusesWhatIsNoQuestion) {
  EXPECT_THROW((void)verify(kRing, Plans(2)), BadInput);
  EXPECT_THROW((void)verify(find_algorithm(Collective::barrier, "dissemination"), kRing), BadInput);
  EXPECT_THROW((void)verify(Spec{.collective = Collective::send, .ranks = 3}, Plans(3)), BadInput);
}

// Messages.

TEST(Verify, ADroppedSend) {
  Plans plans = plans_by(kRing, "ring");
  Round& round = plans[1].lanes[0][3];
  round.erase(round.begin());
  expect_flaw(kRing, plans, {2, 0, 3, 1, out(64, 128), "rank 1 never sends it"});
}

TEST(Verify, ADroppedReceive) {
  Plans plans = plans_by(kRing, "ring");
  plans[2].lanes[0][3].pop_back();
  expect_flaw(kRing, plans, {1, 0, 3, 0, out(64, 128), "rank 2 never receives it"});
}

TEST(Verify, AWrongPeer) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][3][0].peer = 2;
  expect_flaw(kRing, plans, {1, 0, 3, 1, out(0, 64), "rank 0 never sends it"});
  for (const int nobody : {-1, 0, 3}) {
    plans[0].lanes[0][3][0].peer = nobody;
    expect_flaw(kRing, plans, {0, 0, 3, 0, out(0, 64), "must be another rank of 0 to 2"});
  }
}

TEST(Verify, AMessageOfAnotherLength) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][2][0].src.end -= 1;
  expect_flaw(kRing, plans, {1, 0, 2, 1, out(64, 128), "rank 0 sends 63 elements in round 2"});
}

TEST(Verify, MessagesMeetInOrder) {
  const Spec spec = {.collective = Collective::broadcast, .ranks = 2, .count = 2};
  Plans plans = {{.lanes = {{{send(1, out(0, 1))}, {send(1, out(1, 2))}}}},
                 {.lanes = {{{recv(0, out(0, 1))}, {recv(0, out(1, 2))}}}}};
  EXPECT_FALSE(verify(spec, plans));
  std::swap(plans[0].lanes[0][0], plans[0].lanes[0][1]);
  expect_flaw(spec, plans, {1, 0, 0, 0, out(0, 1), "ends with elements from 1 of the whole"});
}

TEST(Verify, ADeadlock) {
  Plans plans = plans_by(kRing, "ring");
  for (Plan& plan : plans) {
    Lane& lane = plan.lanes[0];
    const Round second = {lane[0][1]};
    lane[0].pop_back();
    lane.insert(lane.begin() + 1, second);
  }
  expect_flaw(
      kRing, plans,
      {0, 0, 0, 0, in(0, 64),
       "deadlock: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 0"});
}

TEST(Verify, ADeadlockOfSomeIsFoundBehindThoseWhoWaitForThem) {
  const Spec spec = {.collective = Collective::barrier, .ranks = 3};
  const Plans plans = {{.lanes = {{{recv(1, {})}}}},
                       {.lanes = {{{recv(2, {})}, {send(2, {})}, {send(0, {})}}}},
                       {.lanes = {{{recv(1, {})}, {send(1, {})}}}}};
  expect_flaw(spec, plans,
              {1, 0, 0, 0, {}, "deadlock: rank 1 waits for rank 2, which waits for rank 1"});
}

// Contributions.

TEST(Verify, ADoubledContribution) {
  Plans plans = plans_by(kRing, "ring");
  plans[1].lanes[0][2][1] = recv_reduce(0, in(64, 128), out(64, 128), false);
  expect_flaw(kRing, plans,
              {1, 0, 2, 1, out(64, 128), "adds the contribution of rank 1 a second time"});
}

TEST(Verify, ASwappedRange) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][0][1].src = in(64, 128);
  expect_flaw(kRing, plans,
              {0, 0, 0, 1, out(128, 192), "adds element 128 of the whole to element 64"});
}

TEST(Verify, AForgottenContribution) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][1][1] = recv(2, out(64, 128));
  expect_flaw(kRing, plans,
              {0, 0, 1, 1, out(64, 128), "ends with the contributions of ranks 1-2 only"});
}

TEST(Verify, AMissingFinish) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][1][1].finish = false;
  expect_flaw(kRing, plans, {0, 0, 1, 1, out(64, 128), "is complete, but no step finishes it"});
}

TEST(Verify, AFinishTooEarly) {
  Plans plans = plans_by(kRing, "ring");
  plans[2].lanes[0][0][1].finish = true;
  expect_flaw(kRing, plans,
              {2, 0, 0, 1, out(64, 128), "holds the contributions of ranks 1-2 only"});
}

TEST(Verify, ADoubleFinish) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][2][1].finish = true;
  expect_flaw(kRing, plans, {0, 0, 2, 1, out(0, 64), "only a reduction completes elements"});
  const Spec alone = {.ranks = 1, .count = 4, .in_place = false, .shared = true};
  const Plans twice = {
      {.lanes = {{{peer_reduce(in(0, 4), out(0, 4))}, {peer_reduce(out(0, 4), out(0, 4))}}}}};
  expect_flaw(alone, twice, {0, 0, 1, 0, out(0, 4), "finishes output[0, 4) a second time"});
}

TEST(Verify, AnotherOrderOfAddingUp) {
  // Everyone sends its input to everyone, and each adds them up in the order of arrival.
  Spec spec = kRing;
  spec.count = 5;
  Plans plans(3);
  for (int r = 0; r < 3; ++r) {
    plans[r].lanes = {{{send(around(r, 1, 3), in(0, 5)),
                        recv_reduce(around(r, -1, 3), in(0, 5), out(0, 5), false)},
                       {send(around(r, 2, 3), in(0, 5)),
                        recv_reduce(around(r, -2, 3), out(0, 5), out(0, 5), true)}}};
  }
  expect_flaw(spec, plans, {1, 0, 1, 1, out(0, 5), "added up in another order than on rank 0"});
}

// What each rank has got from the others lies in their order.
TEST(Verify, PartsThatAreNotWhatTheyShouldBe) {
  const Spec spec = {.ranks = 3, .count = 5};
  const AreaRange parts = scratch(0, 10);
  Plans plans = plans_by(spec, "exchange");
  std::swap(plans[1].lanes[0][0][2].dst, plans[1].lanes[0][0][3].dst);
  expect_flaw(spec, plans, {1, 0, 1, 0, out(0, 5), "added up in another order than on rank 0"});
  plans = plans_by(spec, "exchange");
  plans[1].lanes[0][1][0] = reduce_parts(scratch(0, 5), in(0, 5), out(0, 5));
  expect_flaw(spec, plans, {1, 0, 1, 0, in(0, 5), "the operands differ in length"});
  plans[1].lanes[0][1][0] = reduce_parts(scratch(1, 11), in(0, 5), out(0, 5));
  expect_flaw(spec, plans, {1, 0, 1, 0, scratch(1, 11), "rank 1 has 10 elements there"});
  plans[1].lanes[0][1][0] = reduce_parts(parts, in(0, 5), scratch(0, 4));
  expect_flaw(spec, plans, {1, 0, 1, 0, scratch(0, 4), "the two ranges differ in length"});
  plans[1].lanes[0][1][0] = reduce_parts(parts, scratch(0, 5), out(0, 5));
  expect_flaw(spec, plans,
              {1, 0, 1, 0, out(0, 5), "adds the contribution of rank 0 a second time"});
  plans[1].lanes[0][1][0] = reduce_parts(parts, in(0, 5), scratch(2, 7));
  expect_flaw(spec, plans, {1, 0, 1, 0, scratch(2, 7), "of the same round"});
}

TEST(Verify, TheWrongSource) {
  const Spec spec = {.collective = Collective::broadcast, .ranks = 2, .count = 5};
  expect_flaw(spec, Plans(2),
              {1, -1, -1, -1, out(0, 5), "ends with data of rank 1, not of rank 0"});
  const Spec gather = {.collective = Collective::all_gather, .ranks = 2, .count = 4};
  Plans plans = plans_by(gather, "ring");
  plans[0].lanes[0][0][0].dst = out(2, 4);
  expect_flaw(gather, plans, {0, 0, 1, 0, out(0, 2), "nothing was written"});
}

TEST(Verify, AnOutputNeverWritten) {
  Spec spec = {.collective = Collective::broadcast, .ranks = 2, .count = 5, .in_place = false};
  Plans plans = plans_by(spec, "binomial");
  plans[0].lanes[0].pop_back();  // the root's own copy
  expect_flaw(spec, plans, {0, -1, -1, -1, out(0, 5), "is never written"});
}

// Ranges.

TEST(Verify, OutOfRange) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][3][1].dst = out(129, 193);
  expect_flaw(kRing, plans, {0, 0, 3, 1, out(129, 193), "rank 0 has 192 elements there"});
  plans[0].lanes[0][3][1].dst = scratch(0, 64);
  expect_flaw(kRing, plans, {0, 0, 3, 1, scratch(0, 64), "rank 0 has 0 elements there"});
  plans[0].lanes[0][3][1].dst = out(64, 0);
  expect_flaw(kRing, plans, {0, 0, 3, 1, out(64, 0), "rank 0 has 192 elements there"});
  plans = plans_by(kDirect, "direct");
  plans[0].lanes[0][1][1].dst = out(129, 193);
  expect_flaw(kDirect, plans, {0, 0, 1, 1, out(129, 193), "rank 1 has 192 elements there"});
}

TEST(Verify, WritingAnInput) {
  Plans plans = plans_by(kRing, "ring");
  plans[1].lanes[0][0][1].dst.area = Area::input;
  expect_flaw(kRing, plans, {1, 0, 0, 1, in(0, 64), "writes an input"});
}

TEST(Verify, RangesOfTwoLengths) {
  Plans plans = plans_by(kRing, "ring");
  plans[1].lanes[0][0][1].src.end -= 1;
  expect_flaw(kRing, plans, {1, 0, 0, 1, out(0, 64), "differ in length"});
}

TEST(Verify, ReadingWhatWasNeverWritten) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][0][0].src.area = Area::output;
  expect_flaw(kRing, plans, {0, 0, 0, 0, out(0, 64), "where nothing was written yet"});
}

TEST(Verify, AMixedRound) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][1].push_back(copy(in(0, 1), out(0, 1)));
  expect_flaw(kRing, plans, {0, 0, 1, 2, out(0, 1), "only messages or only memory steps"});
}

TEST(Verify, ReducingInABroadcast) {
  const Spec spec = {.collective = Collective::broadcast, .ranks = 2, .count = 5};
  Plans plans = plans_by(spec, "binomial");
  plans[1].lanes[0][0][0] = recv_reduce(0, out(0, 5), out(0, 5), false);
  expect_flaw(spec, plans, {1, 0, 0, 0, out(0, 5), "broadcast reduces nothing"});
}

// Races.

TEST(Verify, ReceivingIntoWhatIsBeingSent) {
  Plans plans = plans_by(kRing, "ring");
  plans[0].lanes[0][3][1].dst = out(0, 64);
  expect_flaw(kRing, plans,
              {0, 0, 3, 1, out(0, 64), "while step 0 of the same round reads output[0, 64)"});
}

TEST(Verify, MemoryStepsMeetAtTheSamePositionOnly) {
  const Spec spec = {.ranks = 1, .count = 10, .in_place = false};
  const Plan good = {
      .lanes = {{{copy(in(0, 10), scratch(0, 10)), copy(scratch(0, 10), out(0, 10))}}},
      .scratch = 10};
  EXPECT_FALSE(verify(spec, {good}));
  Plan shifted = good;
  shifted.lanes[0][0] = {copy(in(0, 10), out(0, 10)), copy(out(0, 9), scratch(0, 9)),
                         copy(scratch(1, 9), out(1, 9))};
  expect_flaw(spec, {shifted},
              {0, 0, 0, 2, out(1, 9), "while step 1 of the same round reads output[0, 9)"});
  Plan into_itself = good;
  into_itself.lanes[0][0] = {copy(in(0, 10), out(0, 10))};
  into_itself.lanes[0].push_back({copy(out(0, 9), out(1, 10))});
  expect_flaw(spec, {into_itself},
              {0, 0, 1, 0, out(1, 10), "of the same round reads output[0, 9)"});
}

TEST(Verify, OverlappingLanes) {
  const Spec spec = {.ranks = 2, .count = 256, .in_place = true, .slice = 64};
  Plans plans = plans_by(spec, "ring");
  ASSERT_EQ(plans[0].lanes.size(), 2u);
  ASSERT_EQ(plans[0].lanes[1][0][1].dst, out(192, 256));
  plans[0].lanes[1][0][1].src = in(191, 255);
  plans[0].lanes[1][0][1].dst = out(191, 255);
  expect_flaw(spec, plans, {0, 1, 0, 1, out(191, 255), "in lane 0"});
}

TEST(Verify, LanesOfDifferentRanksMeetInOneMemory) {
  // Rank 1 reads rank 0's block in lane 1; rank 0 writes it in lane 0.
  const Spec spec = {.collective = Collective::broadcast,
                     .ranks = 2,
                     .count = 8,
                     .root = 1,
                     .in_place = true,
                     .shared = true};
  Plans plans(2);
  plans[0].lanes = {{{recv(1, out(0, 8))}}, {{send(1, {})}, {recv(1, {})}}};
  plans[1].lanes = {{{send(0, out(0, 8))}},
                    {{recv(0, {})}, {peer_read(0, out(0, 8), out(0, 8))}, {send(0, {})}}};
  expect_flaw(spec, plans, {1, 1, 1, 0, out(0, 8), "while rank 0 writes output[0, 8) in lane 0"});
}

// Other ranks' memory.

// Takes the signal from one rank to another out of a barrier round.
void drop_signal(Plans& plans, int round, int from, int to) {
  std::erase(plans[from].lanes[0][round], send(to, {}));
  std::erase(plans[to].lanes[0][round], recv(from, {}));
}

TEST(Verify, AMissingSignalBeforePeerReduce) {
  Plans plans = plans_by(kDirect, "direct");
  drop_signal(plans, 0, 2, 0);
  expect_flaw(kDirect, plans, {0, 0, 1, 0, in(0, 64), "nothing makes it wait for rank 2's start"});
}

TEST(Verify, AMissingSignalAtTheEnd) {
  Plans plans = plans_by(kDirect, "direct");
  drop_signal(plans, 2, 0, 1);
  expect_flaw(
      kDirect, plans,
      {0, 0, 1, 0, in(0, 64), "reads input[0, 64) of rank 1, which may have ended by then"});
}

TEST(Verify, ASignalThatComesTooEarlyOrdersNothing) {
  // Rank 0 tells that it is done before it is.
  Plans plans = plans_by(kDirect, "direct");
  std::swap(plans[0].lanes[0][1], plans[0].lanes[0][2]);
  expect_flaw(kDirect, plans, {0, 0, 2, 0, in(0, 64), "of rank 1, which may have ended by then"});
}

TEST(Verify, TwoRanksInOneSlice) {
  Spec spec = kDirect;
  spec.in_place = true;
  Plans plans = plans_by(spec, "direct");
  for (Step& step : plans[1].lanes[0][1]) step.src.begin = step.own.begin = step.dst.begin = 63;
  expect_flaw(spec, plans, {1, 0, 1, 0, out(63, 64), "nothing makes it wait for rank 0's write"});
}

TEST(Verify, OneWhoNeverWroteCannotBeFound) {
  // Rank 2 knows through rank 1 that rank 0 has started, but not where its memory is.
  const Spec spec = {.collective = Collective::broadcast, .ranks = 3, .count = 8, .shared = true};
  Plans plans(3);
  plans[0].lanes = {{{send(1, out(0, 8))}, {recv(2, {})}}};
  plans[1].lanes = {{{recv(0, out(0, 8))}, {send(2, {})}}};
  plans[2].lanes = {{{recv(1, {})}, {peer_read(0, out(0, 8), out(0, 8))}, {send(0, {})}}};
  expect_flaw(spec, plans, {2, 0, 1, 0, out(0, 8), "without a message from there"});
}

TEST(Verify, ScratchIsNotShared) {
  Plans plans = plans_by(kDirect, "direct");
  for (Plan& plan : plans) plan.scratch = 192;
  plans[0].lanes[0][1][1].dst.area = Area::scratch;
  expect_flaw(kDirect, plans, {0, 0, 1, 1, scratch(0, 64), "scratch is not shared"});
}

// Plans of each family, broken where it is particular.

TEST(Verify, AWrongPartnerInRecursiveDoubling) {
  const Spec spec = {.ranks = 4, .count = 10, .in_place = false};
  Plans plans = plans_by(spec, "recursive_doubling");
  plans[2].lanes[0][1][0].peer = plans[2].lanes[0][1][1].peer = 1;
  expect_flaw(spec, plans, {0, 0, 1, 0, scratch(0, 10), "rank 2 never receives it"});
}

TEST(Verify, ASurplusRankThatNobodyFoldsIn) {
  const Spec spec = {.ranks = 3, .count = 10, .in_place = false};
  Plans plans = plans_by(spec, "recursive_doubling");
  plans[1].lanes[0][0][0] = recv(0, scratch(0, 10));
  expect_flaw(spec, plans, {1, 0, 1, 1, out(0, 10), "holds the contributions of ranks 0, 2 only"});
}

TEST(Verify, TheWrongHalf) {
  const Spec spec = {.ranks = 4, .count = 256, .in_place = false};
  Plans plans = plans_by(spec, "halving_doubling");
  plans[0].lanes[0][1][1].src = plans[0].lanes[0][1][0].src;
  expect_flaw(spec, plans, {0, 0, 1, 1, out(0, 64), "adds element 0 of the whole to element 64"});
}

TEST(Verify, ABlockThatSkipsTheLadder) {
  // Rank 4 of 5 is a block of its own; rank 1 gets nothing from it.
  const Spec spec = {.ranks = 5, .count = 256, .in_place = false};
  Plans plans = plans_by(spec, "binary_blocks");
  std::erase_if(plans[4].lanes[0][0], [](const Step& step) { return step.peer == 1; });
  expect_flaw(spec, plans, {1, 0, 2, 0, out(128, 192), "rank 4 never sends it"});
}

TEST(Verify, AChildThatIsNotAdded) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 4, .count = 8, .in_place = false};
  Plans plans = plans_by(spec, "binomial");
  plans[2].lanes[0][0][0] = recv(3, scratch(0, 8));
  expect_flaw(spec, plans, {0, 0, 1, 0, out(0, 8), "holds the contributions of ranks 0-1, 3 only"});
}

TEST(Verify, AReduceKeepsTheOthersInputs) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 4, .count = 8, .in_place = true};
  Plans plans = plans_by(spec, "binomial");
  plans[2].lanes[0][0][0].dst = in(0, 8);
  expect_flaw(spec, plans, {2, 0, 0, 0, in(0, 8), "writes an input"});
  plans[2].lanes[0][0][0].dst = out(0, 8);
  expect_flaw(spec, plans, {2, 0, 0, 0, out(0, 8), "rank 2 has 0 elements there"});
}

TEST(Verify, AChunkThatIsOverwrittenWhileItLeaves) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 3, .count = 192, .slice = 64};
  Plans plans = plans_by(spec, "chain");
  Round& round = plans[1].lanes[0][1];
  round[0].dst = round[1].src;
  expect_flaw(spec, plans,
              {1, 0, 1, 1, scratch(0, 64), "while step 0 of the same round writes scratch[0, 64)"});
}

TEST(Verify, AGatheredBlockInTheWrongPlace) {
  const Spec spec = {.collective = Collective::gather, .ranks = 3, .count = 30};
  Plans plans = plans_by(spec, "linear");
  std::swap(plans[0].lanes[0][0][0].dst, plans[0].lanes[0][0][1].dst);
  expect_flaw(spec, plans,
              {0, 0, 0, 1, out(10, 20), "ends with elements from 20 of the whole, not from 10"});
}

TEST(Verify, ASubtreesBlocksTheWrongWayRound) {
  const Spec spec = {.collective = Collective::scatter, .ranks = 4, .count = 40};
  Plans plans = plans_by(spec, "binomial");
  plans[2].lanes[0][1][0].src = scratch(0, 10);
  expect_flaw(spec, plans,
              {3, 0, 0, 0, out(0, 10), "ends with elements from 20 of the whole, not from 30"});
}

TEST(Verify, ABlockForAnother) {
  const Spec spec = {.collective = Collective::all_to_all, .ranks = 3, .count = 30};
  Plans plans = plans_by(spec, "pairwise");
  plans[0].lanes[0][1][0].src = in(20, 30);
  expect_flaw(spec, plans,
              {1, 0, 1, 1, out(0, 10), "ends with elements from 20 of the whole, not from 10"});
}

TEST(Verify, ABlockFromAnother) {
  const Spec spec = {.collective = Collective::all_to_all, .ranks = 3, .count = 30, .shared = true};
  Plans plans = plans_by(spec, "direct");
  plans[1].lanes[0][1][1].peer = 0;
  expect_flaw(spec, plans, {1, 0, 1, 1, out(20, 30), "ends with data of rank 0, not of rank 2"});
}

TEST(Verify, ATravellerThatStaysBehind) {
  const Spec spec = {.collective = Collective::all_to_all, .ranks = 4, .count = 40};
  Plans plans = plans_by(spec, "bruck");
  plans[0].lanes[0][0].pop_back();  // of what is packed for the first hop
  expect_flaw(spec, plans, {0, 0, 1, 0, scratch(10, 20), "where nothing was written yet"});
}

TEST(Verify, AHostThatIsLeftOut) {
  const Spec spec = {
      .ranks = 4, .count = 256, .in_place = false, .hosts = std::vector<int>{0, 0, 1, 1}};
  Plans plans = plans_by(spec, "hierarchical");
  // Rank 3 takes what comes for the sum; rank 0 is the first to end with it.
  plans[3].lanes[0][1][1] = recv(1, plans[3].lanes[0][1][1].dst);
  expect_flaw(spec, plans,
              {0, 0, 3, 1, out(192, 256), "ends with the contributions of ranks 0-1 only"});
}

}  // namespace
}  // namespace asup::collective
