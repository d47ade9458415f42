#include "asup/train/phases.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"
#include "asup/train/config_draft.h"

namespace asup::train {
namespace {

using ::testing::HasSubstr;

TrainConfig changing(const std::string& sync, const std::string& then, const std::string& at) {
  TrainConfig config;
  config.sync = sync;
  config.then = then;
  config.at = at;
  return config;
}

std::string refusal(const TrainConfig& config) {
  try {
    resolve(config);
    return "";
  } catch (const BadInput& error) {
    return error.what();
  }
}

TEST(Phases, ARunWithoutAnotherWayHasOne) {
  const TrainConfig config;
  EXPECT_FALSE(has_phases(config));
  EXPECT_EQ(of_phase(config, Phase::first).sync, "allreduce");
  EXPECT_EQ(switch_step(config, {100, 10}), std::nullopt);
}

TEST(Phases, TheSecondBeginsAtAStep) {
  EXPECT_EQ(switch_step(changing("local", "allreduce", "80%"), {200, 10}), 160);
  EXPECT_EQ(switch_step(changing("local", "allreduce", "30"), {200, 10}), 30);
  EXPECT_EQ(switch_step(changing("local", "allreduce", "stall"), {200, 10}), std::nullopt);
  for (const char* at : {"0", "0%", "200", "300", "100%"})
    EXPECT_THROW(switch_step(changing("local", "allreduce", at), {200, 10}), BadInput) << at;
}

// Rounds of a given time have no number of steps, though local SGD may have one.
TEST(Phases, TimedRoundsLeaveTheIntervalToTheOtherWay) {
  TrainConfig config = changing("local", "diloco", "50%");
  config.round_seconds = 5;
  config.every = "4";
  config.jitter_ms = 3;
  EXPECT_EQ(refusal(config), "");
  EXPECT_EQ(of_phase(config, Phase::first).every, TrainConfig{}.every);
  EXPECT_EQ(of_phase(config, Phase::second).every, "4");
  EXPECT_EQ(of_phase(config, Phase::second).round_seconds, 0);
  config.then = "allreduce";
  EXPECT_THAT(refusal(config), HasSubstr("every = 4 has no effect"));
}

TEST(Phases, ASettingCountsWhereItsWayIs) {
  TrainConfig config = changing("local", "diloco", "50%");
  config.every = "4";
  config.merge_state = "keep";
  config.outer_lr = 0.5;
  const TrainConfig first = of_phase(config, Phase::first);
  EXPECT_EQ(first.sync, "local");
  EXPECT_EQ(first.every, "4");
  EXPECT_EQ(first.merge_state, "keep");
  EXPECT_EQ(first.outer_lr, TrainConfig{}.outer_lr);
  const TrainConfig second = of_phase(config, Phase::second);
  EXPECT_EQ(second.sync, "diloco");
  EXPECT_EQ(second.every, "4");
  EXPECT_EQ(second.merge_state, TrainConfig{}.merge_state);
  EXPECT_EQ(second.outer_lr, 0.5);
  EXPECT_EQ(refusal(config), "");
}

TEST(Phases, WhatOneWayAloneHasIsNotRefusedForTheOther) {
  TrainConfig config = changing("local", "allreduce", "50%");
  config.round_seconds = 5;
  config.merge_deadline = "3";
  EXPECT_EQ(refusal(config), "");
  config.remainder = "drop";  // by all-reduce
  EXPECT_EQ(refusal(config), "");
  config.then = "adpsgd";
  EXPECT_THAT(refusal(config), HasSubstr("remainder = drop has no effect"));
}

TEST(Phases, TheFirstStopsWhereTheSecondBegins) {
  TrainConfig config = changing("local", "allreduce", "50%");
  const RunLength length{200, 10};
  EXPECT_EQ(of_phase(config, Phase::first, length).stop_at, 100);
  EXPECT_EQ(of_phase(config, Phase::second, length).stop_at, 0);
  config.stop_at = 60;
  EXPECT_EQ(of_phase(config, Phase::first, length).stop_at, 60);
  config.stop_at = 160;
  EXPECT_EQ(of_phase(config, Phase::first, length).stop_at, 100);
  EXPECT_EQ(of_phase(config, Phase::second, length).stop_at, 160);
}

TEST(Phases, ServersAreThereFromTheStart) {
  EXPECT_EQ(resolve(changing("allreduce", "server", "80%")).servers, 1);
  EXPECT_EQ(resolve(changing("asup", "local", "80%")).servers, 1);
  EXPECT_EQ(resolve(changing("local", "allreduce", "80%")).servers, 0);
}

TEST(Phases, WhatCannotBeIsRefused) {
  EXPECT_THAT(refusal(changing("local", "local", "80%")), HasSubstr("that the run begins with"));
  EXPECT_THAT(refusal(changing("local", "allreduce", "late")), HasSubstr("at = 'late' is no step"));
  EXPECT_THAT(refusal(changing("local", "none", "50%")), HasSubstr("at = 50% has no effect"));
  TrainConfig config = changing("local", "allreduce", "80%");
  config.graph = "exponential";
  EXPECT_THAT(refusal(config), HasSubstr("graph = exponential has no effect"));
  config = changing("server", "allreduce", "80%");
  config.merge = "easgd";
  EXPECT_THAT(refusal(config), HasSubstr("with parameters of their own"));
  config = changing("diloco", "local", "80%");
  config.on_loss = "continue";
  EXPECT_EQ(refusal(config), "");
  config.checkpoint_every.kind = Every::Kind::never;
  EXPECT_THAT(refusal(config), HasSubstr("Set checkpoint-every"));
  config = changing("allreduce", "gossip", "80%");
  config.workers = 1;
  EXPECT_THAT(refusal(config), HasSubstr("one worker has none"));
}

}  // namespace
}  // namespace asup::train
