// Schedules that were changed are refuted, in words that say what is wrong.
#include "asup/parallel/schedule/verify.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

#include "asup/base/error.h"
#include "asup/parallel/schedule/messages.h"
#include "tests/parallel/schedule/cases.h"

namespace asup::parallel {
namespace {

using testing::activations_of;
using ::testing::HasSubstr;
using testing::spec_of;
using Op = Action::Op;
using Schedules = std::vector<Schedule>;

struct Case {
  explicit Case(const char* name, int ranks = 4, int micro_batches = 6, int chunks = 0)
      : row(find_schedule(name)),
        spec(spec_of(row, ranks, micro_batches, chunks)),
        schedules(schedules_of(row, spec)) {}

  // What the verifier says, "" where it finds no flaw.
  std::string flaw(Sending sending = Sending::beside) const {
    const auto found = verify(spec, schedules, activations_of(row, spec), sending);
    return found ? describe(*found, schedules) : "";
  }

  Schedule::iterator find(const Action& action) {
    Schedule& schedule = schedules[spec.rank_of(action.stage)];
    const auto at = std::find(schedule.begin(), schedule.end(), action);
    EXPECT_NE(at, schedule.end()) << describe(action);
    return at;
  }
  void drop(const Action& action) { schedules[spec.rank_of(action.stage)].erase(find(action)); }
  void repeat(const Action& action) { schedules[spec.rank_of(action.stage)].push_back(action); }
  // Puts `action` right before `other`, of the same rank.
  void move_before(const Action& action, const Action& other) {
    drop(action);
    schedules[spec.rank_of(action.stage)].insert(find(other), action);
  }

  const PipelineSchedule& row;
  PipelineSpec spec;
  Schedules schedules;
};

TEST(Verify, AcceptsWhatIsRight) {
  for (const PipelineSchedule& row : pipeline_schedules())
    EXPECT_EQ(Case(std::string(row.name).c_str()).flaw(), "") << row.name;
}

TEST(Verify, MissesWhatIsDropped) {
  for (const Action& action : {Action{Op::forward, 1, 3},
                               {Op::backward, 2, 5},
                               {Op::send_activation, 0, 2},
                               {Op::recv_activation, 3, 0},
                               {Op::send_gradient, 3, 4},
                               {Op::recv_gradient, 0, 1}}) {
    Case c("1f1b");
    c.drop(action);
    EXPECT_EQ(c.flaw(), fmt::format("rank {}: {} is missing", action.stage, describe(action)));
  }
}

TEST(Verify, MissesAWeightGradient) {
  Case c("zb1p");
  c.drop({Op::backward_weight, 2, 3});
  EXPECT_EQ(c.flaw(), "rank 2: backward_weight of stage 2, micro-batch 3 is missing");
}

TEST(Verify, RefutesWhatIsDoneTwice) {
  Case c("1f1b");
  c.repeat({Op::backward, 0, 1});
  EXPECT_THAT(c.flaw(), HasSubstr("backward of stage 0, micro-batch 1: done a second time; first "
                                  "at action "));
  Case message("1f1b");
  message.repeat({Op::send_activation, 0, 1});
  EXPECT_THAT(message.flaw(),
              HasSubstr("send_activation of stage 0, micro-batch 1: done a second"));
}

TEST(Verify, RefutesBackwardBesideItsHalves) {
  Case c("zb1p");
  c.repeat({Op::backward, 1, 2});
  EXPECT_THAT(c.flaw(), HasSubstr("backward of stage 1, micro-batch 2: the backward_input at "
                                  "action "));
  Case weight("1f1b");
  weight.repeat({Op::backward_weight, 1, 2});
  EXPECT_THAT(weight.flaw(), AllOf(HasSubstr("backward_weight of stage 1, micro-batch 2: the "
                                             "backward at action "),
                                   HasSubstr("has done it")));
}

TEST(Verify, RefutesWhatComesTooEarly) {
  Case weight("zb1p");
  weight.move_before({Op::backward_weight, 0, 1}, {Op::backward_input, 0, 1});
  EXPECT_THAT(weight.flaw(), HasSubstr("backward_weight of stage 0, micro-batch 1: comes before "
                                       "backward_input of stage 0, micro-batch 1, which it needs"));
  Case back("1f1b", 1, 2);
  back.move_before({Op::backward, 0, 1}, {Op::forward, 0, 1});
  EXPECT_THAT(back.flaw(), HasSubstr("comes before forward of stage 0, micro-batch 1"));
  Case sent("1f1b");
  sent.move_before({Op::send_activation, 1, 0}, {Op::forward, 1, 0});
  EXPECT_THAT(sent.flaw(), HasSubstr("send_activation of stage 1, micro-batch 0: comes before "
                                     "forward of stage 1, micro-batch 0"));
  Case used("1f1b");
  used.move_before({Op::backward, 1, 0}, {Op::recv_gradient, 1, 0});
  EXPECT_THAT(used.flaw(), HasSubstr("backward of stage 1, micro-batch 0: comes before "
                                     "recv_gradient of stage 1, micro-batch 0"));
}

// Where a rank has neighbouring stages, no message orders them.
TEST(Verify, RefutesAStageBeforeTheOneThatFeedsItOnTheSameRank) {
  Case forward("zbv");
  forward.move_before({Op::forward, 4, 0}, {Op::forward, 3, 0});
  EXPECT_THAT(forward.flaw(), HasSubstr("forward of stage 4, micro-batch 0: comes before forward "
                                        "of stage 3, micro-batch 0, which it needs"));
  Case backward("zbv");
  backward.move_before({Op::backward_input, 3, 0}, {Op::backward_input, 4, 0});
  EXPECT_THAT(backward.flaw(), HasSubstr("comes before backward_input of stage 4, micro-batch 0"));
}

TEST(Verify, RefutesMessagesThatGoNowhere) {
  Case c("1f1b");
  c.repeat({Op::send_activation, 3, 0});
  EXPECT_THAT(c.flaw(), HasSubstr("there is no stage to send it to"));
  Case first("1f1b");
  first.repeat({Op::recv_activation, 0, 0});
  EXPECT_THAT(first.flaw(), HasSubstr("there is no stage to receive it from"));
  Case same("zbv");
  same.repeat({Op::send_activation, 3, 0});
  EXPECT_THAT(same.flaw(), HasSubstr("is on the same rank"));
}

// In the vocabulary, where a message goes follows from the stage: a send to the wrong rank is one
// of another stage.
TEST(Verify, RefutesASendToTheWrongRank) {
  Case c("interleaved", 2, 4, 2);
  c.find({Op::send_activation, 1, 2})->stage = 0;
  EXPECT_EQ(c.flaw().substr(0, 5), "rank ");
  EXPECT_THAT(c.flaw(), HasSubstr("stage 0 is on rank 0"));
  Case chunk("interleaved", 2, 4, 2);
  chunk.find({Op::send_activation, 0, 2})->stage = 2;
  EXPECT_THAT(chunk.flaw(), HasSubstr("send_activation of stage 2, micro-batch 2: done a second"));
}

TEST(Verify, RefutesWhatIsOutOfTheSpec) {
  Case stage("1f1b");
  stage.find({Op::forward, 1, 2})->stage = 4;
  EXPECT_THAT(stage.flaw(), HasSubstr("there is no stage 4; stages are 0 to 3"));
  Case batch("1f1b");
  batch.find({Op::forward, 1, 2})->micro_batch = 6;
  EXPECT_THAT(batch.flaw(), HasSubstr("there is no micro-batch 6; they are 0 to 5"));
  Case rank("1f1b");
  std::swap(rank.schedules[1], rank.schedules[2]);
  EXPECT_THAT(rank.flaw(), HasSubstr("stage 2 is on rank 2"));
}

TEST(Verify, RefutesAnotherOrderOfReceiving) {
  Case c("gpipe", 2, 3);
  // Both of rank 1's first receives, the second first.
  c.move_before({Op::recv_activation, 1, 1}, {Op::recv_activation, 1, 0});
  EXPECT_EQ(c.flaw(),
            "rank 1, action 1, recv_activation of stage 1, micro-batch 0: rank 0 sends it before "
            "send_activation of stage 0, micro-batch 1, which is received before");
}

TEST(Verify, RefutesADeadlock) {
  Case c("1f1b", 2, 3);
  // Rank 0 wants the gradient of micro-batch 0 before it sends what that is computed from.
  c.move_before({Op::recv_gradient, 0, 0}, {Op::send_activation, 0, 0});
  EXPECT_EQ(c.flaw(),
            "rank 0, action 1, recv_gradient of stage 0, micro-batch 0: deadlock: rank 0 waits in "
            "recv_gradient of stage 0, micro-batch 0 for rank 1 waits in recv_activation of stage "
            "1, micro-batch 0 for rank 0");
}

TEST(Verify, RefutesTooManyActivations) {
  Case c("1f1b", 4, 6);
  c.schedules = schedules_of(find_schedule("gpipe"), c.spec);
  EXPECT_EQ(c.flaw(),
            "rank 0, action 8, forward of stage 0, micro-batch 4: holds the activations of 5 "
            "micro-batches, 4 at most are allowed");
}

// A middle rank that sends its activation before it takes the gradient waits for one that does the
// same the other way round, unless sends go on beside.
TEST(Verify, TellsWhereSendsMustGoOnBeside) {
  const Case c("zbv", 2, 4);
  EXPECT_EQ(c.flaw(), "");
  EXPECT_THAT(c.flaw(Sending::blocking), HasSubstr("deadlock: rank 0 waits in send_"));
}

// Whatever a random change leaves right, a run in any order of the ranks must agree: each action
// finds what it needs.
class Interpreter {
 public:
  Interpreter(const Case& c, std::mt19937& random) : c_(c), random_(random) {}

  std::string run() {
    std::vector<std::size_t> at(c_.schedules.size());
    while (true) {
      std::vector<std::size_t> ready;
      for (std::size_t rank = 0; rank < at.size(); ++rank)
        if (at[rank] < c_.schedules[rank].size() && can(c_.schedules[rank][at[rank]]))
          ready.push_back(rank);
      if (ready.empty()) return "";
      const std::size_t rank = ready[random_() % ready.size()];
      const Action& action = c_.schedules[rank][at[rank]++];
      if (!done_.insert(key(action)).second) return "twice: " + describe(action);
      if (const std::string wrong = misses(action); !wrong.empty()) return wrong;
    }
  }

  std::size_t count() const { return done_.size(); }

 private:
  using Key = std::tuple<Op, int, int>;
  static Key key(const Action& action) { return {action.op, action.stage, action.micro_batch}; }
  bool done(Op op, int stage, int i) const { return done_.count({op, stage, i}) > 0; }
  bool backward(int stage, int i) const {
    return done(Op::backward, stage, i) || done(Op::backward_input, stage, i);
  }

  bool can(const Action& action) const {
    const bool recv = action.op == Op::recv_activation || action.op == Op::recv_gradient;
    return !recv || done_.count(key(counterpart(action))) > 0;
  }

  std::string misses(const Action& action) const {
    const auto [op, stage, i] = action;
    bool ready = true;
    if (op == Op::forward && stage > 0)
      ready = receives_activation(stage, c_.spec) ? done(Op::recv_activation, stage, i)
                                                  : done(Op::forward, stage - 1, i);
    if (op == Op::backward || op == Op::backward_input) {
      ready = done(Op::forward, stage, i);
      if (stage + 1 < c_.spec.stages())
        ready &= receives_gradient(stage, c_.spec) ? done(Op::recv_gradient, stage, i)
                                                   : backward(stage + 1, i);
    }
    if (op == Op::backward_weight) ready = done(Op::backward_input, stage, i);
    if (op == Op::send_activation) ready = done(Op::forward, stage, i);
    if (op == Op::send_gradient) ready = backward(stage, i);
    return ready ? "" : "too early: " + describe(action);
  }

  const Case& c_;
  std::mt19937& random_;
  std::set<Key> done_;
};

TEST(Verify, WhatIsAcceptedAfterARandomSwapRuns) {
  std::mt19937 random(1);
  int accepted = 0, refuted = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const auto& rows = pipeline_schedules();
    Case c(std::string(rows[random() % rows.size()].name).c_str(), 2 + random() % 3,
           1 + random() % 5);
    Schedule& schedule = c.schedules[random() % c.schedules.size()];
    const std::size_t a = random() % schedule.size();
    std::swap(schedule[a], schedule[std::min(a + 1 + random() % 3, schedule.size() - 1)]);
    if (verify(c.spec, c.schedules)) {
      ++refuted;
      continue;
    }
    ++accepted;
    std::size_t actions = 0;
    for (const Schedule& one : c.schedules) actions += one.size();
    Interpreter interpreter(c, random);
    ASSERT_EQ(interpreter.run(), "") << c.row.name;
    ASSERT_EQ(interpreter.count(), actions) << c.row.name;
  }
  EXPECT_GT(accepted, 300);
  EXPECT_GT(refuted, 300);
}

}  // namespace
}  // namespace asup::parallel
