#include "asup/parallel/schedule/schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/parallel/schedule/messages.h"
#include "tests/parallel/schedule/cases.h"

namespace asup::parallel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::spec_of;
using ::testing::ThrowsMessage;
using Op = Action::Op;

// "F0 F1 B0 B1": a letter for each computation, its micro-batch, and its chunk where there are
// more.
std::string words(const Schedule& schedule, const PipelineSpec& spec) {
  std::string text;
  for (const Action& action : schedule) {
    constexpr const char* kLetters[] = {"F", "B", "I", "W", "sa", "ra", "sg", "rg"};
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", kLetters[static_cast<int>(action.op)],
                        action.micro_batch);
    if (spec.chunks > 1) text += static_cast<char>('a' + action.stage / spec.ranks);
  }
  return text;
}

std::string computations(const char* name, int rank, int ranks, int micro_batches, int chunks = 0) {
  const PipelineSchedule& schedule = find_schedule(name);
  const PipelineSpec spec = spec_of(schedule, ranks, micro_batches, chunks);
  return words(schedule.computations(rank, spec), spec);
}

TEST(Placement, InALoopStagesGoRound) {
  const PipelineSpec spec{.ranks = 3, .micro_batches = 1, .chunks = 2};
  EXPECT_EQ(spec.stages(), 6);
  EXPECT_THAT(spec.stages_of(1), ElementsAre(1, 4));
  EXPECT_EQ(spec.rank_of(3), 0);
  EXPECT_EQ(spec.rank_of(5), 2);
}

TEST(Placement, InAVTheLastStageIsBesideTheFirst) {
  const PipelineSpec spec{.ranks = 3, .micro_batches = 1, .chunks = 2, .placement = Placement::vee};
  EXPECT_THAT(spec.stages_of(0), ElementsAre(0, 5));
  EXPECT_THAT(spec.stages_of(2), ElementsAre(2, 3));
  for (int stage = 0; stage < 6; ++stage)
    EXPECT_THAT(spec.stages_of(spec.rank_of(stage)), ::testing::Contains(stage));
}

TEST(Gpipe, GoesForwardThenBack) { EXPECT_EQ(computations("gpipe", 1, 3, 3), "F0 F1 F2 B0 B1 B2"); }

TEST(OneForwardOneBackward, TakesTurns) {
  EXPECT_EQ(computations("1f1b", 0, 3, 4), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(computations("1f1b", 1, 3, 4), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(computations("1f1b", 2, 3, 4), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(computations("1f1b", 0, 8, 2), "F0 F1 B0 B1");
}

TEST(Interleaved, TakesGroupsThroughTheChunks) {
  // Figure 4 of the paper, with two ranks.
  EXPECT_EQ(computations("interleaved", 0, 2, 4),
            "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
  EXPECT_EQ(computations("interleaved", 1, 2, 4),
            "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
}

TEST(Interleaved, DealsAnyNumberOfMicroBatchesOutToGroups) {
  EXPECT_EQ(computations("interleaved", 1, 2, 3),
            "F0a F1a F2a F0b B0b F1b B1b F2b B2b B0a B1a B2a");
  EXPECT_EQ(computations("interleaved", 0, 3, 1), "F0a F0b B0b B0a");
}

TEST(Zb1p, PutsWeightsOffAsFarAsTheRankIsFromTheFirst) {
  EXPECT_EQ(computations("zb1p", 0, 3, 4), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(computations("zb1p", 1, 3, 4), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(computations("zb1p", 2, 3, 4), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

TEST(Zbv, GoesDownAndUpTheV) {
  EXPECT_EQ(computations("zbv", 0, 2, 3),
            "F0a F1a F2a F0b I0b W0b F1b I1b W1b I0a W0a F2b I2b W2b I1a W1a I2a W2a");
  EXPECT_EQ(computations("zbv", 1, 2, 3),
            "F0a F0b F1a F1b I0b W0b F2a I0a W0a F2b I1b W1b I1a I2b I2a W1a W2b W2a");
}

TEST(Messages, StandBesideWhatMakesAndNeedsThem) {
  const PipelineSchedule& schedule = find_schedule("1f1b");
  const PipelineSpec spec = spec_of(schedule, 3, 2);
  const auto all = schedules_of(schedule, spec);
  EXPECT_EQ(words(all[0], spec), "F0 sa0 F1 sa1 rg0 B0 rg1 B1");
  EXPECT_EQ(words(all[1], spec), "ra0 F0 sa0 ra1 F1 sa1 rg0 B0 sg0 rg1 B1 sg1");
  EXPECT_EQ(words(all[2], spec), "ra0 F0 B0 sg0 ra1 F1 B1 sg1");
}

TEST(Messages, AreNotSentToTheSameRank) {
  const PipelineSchedule& schedule = find_schedule("zbv");
  const PipelineSpec spec = spec_of(schedule, 2, 1);
  EXPECT_EQ(words(schedules_of(schedule, spec)[1], spec),
            "ra0a F0a F0b sa0b rg0b I0b W0b I0a sg0a W0a");
  EXPECT_FALSE(receives_activation(2, spec));
  EXPECT_TRUE(receives_activation(3, spec));
}

TEST(Messages, HaveAnotherEnd) {
  const PipelineSpec spec{.ranks = 4, .micro_batches = 9, .chunks = 2};
  const Action send{Op::send_activation, 3, 7};
  EXPECT_EQ(counterpart(send), (Action{Op::recv_activation, 4, 7}));
  EXPECT_EQ(peer_of(send, spec), 0);
  for (const Op op :
       {Op::send_activation, Op::recv_activation, Op::send_gradient, Op::recv_gradient})
    EXPECT_EQ(counterpart(counterpart({op, 3, 7})), (Action{op, 3, 7}));
  EXPECT_THAT(
      [] {
        counterpart({Op::forward, 3, 7});
      },
      ThrowsMessage<Error>("forward of stage 3, micro-batch 7 is no message"));
}

TEST(Table, FindsByName) {
  EXPECT_EQ(find_schedule("zbv").placement, Placement::vee);
  EXPECT_THAT([] { find_schedule("zb1q"); },
              ThrowsMessage<BadInput>("no pipeline schedule 'zb1q'; did you mean 'zb1p'?; there "
                                      "are: 1f1b, gpipe, interleaved, zb1p, zbv"));
}

TEST(Table, RefusesWhatAScheduleCannotDo) {
  const auto refused = [](const char* name, PipelineSpec spec, const char* message) {
    const PipelineSchedule& schedule = find_schedule(name);
    spec.placement = schedule.placement;
    EXPECT_THAT([&] { require_valid(schedule, spec); },
                ThrowsMessage<BadInput>(HasSubstr(message)));
  };
  refused("1f1b", {.ranks = 0}, "a pipeline of 0 ranks: it needs at least 1");
  refused("1f1b", {.ranks = 2, .micro_batches = 0}, "0 micro-batches: a step needs at least 1");
  refused("1f1b", {.ranks = 2, .chunks = 2},
          "1f1b gives each rank one stage of the model, not 2; for more, choose interleaved");
  refused("zbv", {.ranks = 2, .chunks = 3}, "zbv gives each rank 2 stages of the model, not 3");
  refused("interleaved", {.ranks = 2, .chunks = 1},
          "interleaved gives each rank 2 to 64 stages of the model, not 1; for one, choose 1f1b");
}

}  // namespace
}  // namespace asup::parallel
