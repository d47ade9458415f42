#include "asup/collective/plan/plan.h"

#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "asup/base/error.h"
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"

namespace asup::collective {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Cut, PartsAreEvenAndCoverTheWhole) {
  for (const std::size_t grain : {1, 16, 64}) {
    for (const std::size_t count : {0, 1, 63, 64, 65, 1000, 4096}) {
      for (const int parts : {1, 2, 3, 7, 64}) {
        std::size_t end = 0, shortest = count, longest = 0;
        for (int i = 0; i < parts; ++i) {
          const Cut part = cut(count, parts, i, grain);
          EXPECT_EQ(part.begin, end);
          EXPECT_TRUE(part.begin % grain == 0 || part.begin == count);
          end = part.end;
          shortest = std::min(shortest, part.size());
          longest = std::max(longest, part.size());
        }
        EXPECT_EQ(end, count);
        EXPECT_LT(longest - shortest, 2 * grain);
      }
    }
  }
}

TEST(Cut, DoesNotOverflow) {
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(cut(most, 2, 1, 64).end, most);
  EXPECT_EQ(cut(most, 2, 0, 64).end, most / 2 + 1);
}

TEST(Cut, RefusesPartsThatAreNot) {
  EXPECT_THROW(cut(10, 0, 0), Error);
  EXPECT_THROW(cut(10, 2, 2), Error);
  EXPECT_THROW(cut(10, 2, -1), Error);
  EXPECT_THROW(cut(10, 2, 0, 0), Error);
}

TEST(Spec, BlocksFollowCounts) {
  Spec spec;
  spec.ranks = 3;
  spec.count = 10;
  EXPECT_EQ(spec.block(Area::input, 1), in(4, 7));
  spec.counts = {5, 0, 5};
  EXPECT_EQ(spec.block(Area::output, 2), out(5, 10));
  EXPECT_EQ(spec.blocks(Area::output), (std::vector{out(0, 5), out(5, 5), out(5, 10)}));
}

TEST(Spec, KnowsHowLargeBuffersAre) {
  Spec spec;
  spec.ranks = 4;
  spec.count = 10;
  spec.root = 2;
  auto sizes = [&](Collective collective, bool in_place, int rank) {
    spec.collective = collective;
    spec.in_place = in_place;
    return std::pair(spec.elements(Area::input, rank), spec.elements(Area::output, rank));
  };
  using Sizes = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(sizes(Collective::all_reduce, false, 0), Sizes(10, 10));
  EXPECT_EQ(sizes(Collective::reduce_scatter, false, 0), Sizes(10, 3));
  EXPECT_EQ(sizes(Collective::all_gather, false, 3), Sizes(2, 10));
  EXPECT_EQ(sizes(Collective::broadcast, false, 0), Sizes(0, 10));
  EXPECT_EQ(sizes(Collective::broadcast, false, 2), Sizes(10, 10));
  EXPECT_EQ(sizes(Collective::broadcast, true, 0), Sizes(10, 10));
  EXPECT_EQ(sizes(Collective::reduce, true, 0), Sizes(10, 0));
  EXPECT_EQ(sizes(Collective::reduce, true, 2), Sizes(10, 10));
  EXPECT_EQ(sizes(Collective::gather, false, 0), Sizes(3, 0));
  EXPECT_EQ(sizes(Collective::gather, false, 2), Sizes(2, 10));
  EXPECT_EQ(sizes(Collective::scatter, false, 0), Sizes(0, 3));
  EXPECT_EQ(sizes(Collective::scatter, false, 2), Sizes(10, 2));
  EXPECT_EQ(sizes(Collective::all_to_all, false, 0), Sizes(10, 12));
  EXPECT_EQ(sizes(Collective::all_to_all, false, 3), Sizes(10, 8));
  EXPECT_EQ(sizes(Collective::barrier, true, 0), Sizes(0, 0));
  EXPECT_EQ(sizes(Collective::send, true, 0), Sizes(10, 0));
  EXPECT_EQ(sizes(Collective::recv, true, 0), Sizes(0, 10));
}

TEST(Spec, AnExchangeHasABlockForEachPair) {
  const Spec spec = {
      .collective = Collective::all_to_all, .ranks = 2, .count = 10, .counts = {1, 2, 3, 4}};
  EXPECT_NO_THROW(require_valid(spec));
  EXPECT_EQ(spec.leaving(1), (std::vector{in(0, 3), in(3, 7)}));
  EXPECT_EQ(spec.arriving(1), (std::vector{out(0, 2), out(2, 6)}));
  Spec row = spec;
  row.counts = {5, 5};
  EXPECT_THAT([&] { require_valid(row); },
              ThrowsMessage<BadInput>(HasSubstr("one for each sender and receiver")));
}

TEST(Spec, InAReduceOnlyTheRootWorksInPlace) {
  const Spec spec = {.collective = Collective::reduce, .ranks = 3, .count = 5, .root = 1};
  EXPECT_TRUE(spec.aliased(1));
  EXPECT_FALSE(spec.aliased(0));
}

TEST(Spec, OnlySomeCollectivesKnowInPlace) {
  Spec spec;
  spec.in_place = true;
  for (const auto& [collective, aliased] :
       {std::pair(Collective::all_reduce, true), std::pair(Collective::broadcast, true),
        std::pair(Collective::reduce_scatter, false), std::pair(Collective::all_gather, false)}) {
    spec.collective = collective;
    EXPECT_EQ(spec.aliased(), aliased) << name_of(collective);
  }
}

TEST(Spec, WrongOnesAreRefused) {
  const Spec good = {
      .collective = Collective::all_gather, .ranks = 2, .count = 6, .counts = {2, 4}};
  EXPECT_NO_THROW(require_valid(good));
  auto refused = [&](auto spoil, const char* words) {
    Spec spec = good;
    spoil(spec);
    EXPECT_THAT([&] { require_valid(spec); }, ThrowsMessage<BadInput>(HasSubstr(words)));
  };
  refused([](Spec& s) { s.ranks = 0; }, "at least one");
  refused([](Spec& s) { s.root = -1; }, "there is no rank -1; ranks are 0 to 1");
  refused([](Spec& s) { s.root = 2; }, "there is no rank 2");
  refused([](Spec& s) { s.slice = 0; }, "slice");
  refused([](Spec& s) { s.counts = {6}; }, "among 2 ranks got 1 block counts");
  refused([](Spec& s) { s.count = 7; }, "add up to 6, but there are 7 elements");
  refused([](Spec& s) { s.counts = {2, std::numeric_limits<std::size_t>::max()}; }, "more than");
}

TEST(Algorithms, NamesAreUniqueAndEveryCollectiveHasOneWithoutSharedMemory) {
  std::set<std::pair<Collective, std::string_view>> seen;
  std::set<Collective> served;
  for (const Algorithm& algorithm : algorithms()) {
    EXPECT_TRUE(seen.emplace(algorithm.collective, algorithm.name).second) << algorithm.name;
    EXPECT_FALSE(algorithm.description.empty());
    if (!algorithm.needs_shared) served.insert(algorithm.collective);
    EXPECT_EQ(&find_algorithm(algorithm.collective, algorithm.name), &algorithm);
  }
  for (int c = 0; c <= static_cast<int>(Collective::recv); ++c) {
    EXPECT_TRUE(served.count(static_cast<Collective>(c))) << name_of(static_cast<Collective>(c));
  }
}

TEST(Algorithms, AnUnknownNameListsTheKnown) {
  EXPECT_THAT([] { find_algorithm(Collective::broadcast, "rnig"); },
              ThrowsMessage<BadInput>("broadcast has no algorithm 'rnig'; choose from: direct, "
                                      "binomial, chain"));
  EXPECT_THROW(find_algorithm(Collective::barrier, "ring"), BadInput);
}

TEST(Describe, APlanReadsLikeOne) {
  const Plan plan = {.lanes = {{{send(1, in(0, 4)), recv_reduce(1, in(4, 8), out(4, 8), true)},
                                {copy(in(0, 4), scratch(0, 4))},
                                {send(2, {}), recv(0, {})}}},
                     .scratch = 4};
  EXPECT_EQ(describe(plan),
            "  round 0: send input[0, 4) to 1; "
            "recv_reduce output[4, 8) = input[4, 8) (+) from 1, complete\n"
            "  round 1: copy scratch[0, 4) = input[0, 4)\n"
            "  round 2: signal 2; await 0\n"
            "  needs scratch for 4 elements\n");
  EXPECT_EQ(describe(peer_reduce(in(0, 2), out(0, 2))),
            "peer_reduce output[0, 2) = (+) every rank's input[0, 2), complete");
  EXPECT_EQ(describe(reduce_parts(scratch(0, 4), in(0, 2), out(0, 2))),
            "reduce_parts output[0, 2) = input[0, 2) (+) the others' parts in scratch[0, 4), "
            "complete");
  EXPECT_EQ(describe(peer_write(3, out(0, 2), out(0, 2))),
            "peer_write output[0, 2) of 3 = output[0, 2)");
  EXPECT_EQ(describe(peer_read(3, in(0, 2), out(0, 2))),
            "peer_read output[0, 2) = input[0, 2) of 3");
  EXPECT_EQ(describe(Plan{}), "  nothing to do\n");
}

}  // namespace
}  // namespace asup::collective
