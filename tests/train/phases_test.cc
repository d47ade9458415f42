#include "asup/train/phases.h"

#include <gmock/gmock.h>

#include "asup/asup.h"
#include "tests/train/said.h"

namespace asup::train {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::said;
using testing::Sayings;

TrainConfig changing(const std::string& at) {
  return said({{"sync", "local"}, {"then", "allreduce"}, {"at", at}});
}

TEST(Phases, ARunWithoutAnotherWayHasOne) {
  const TrainConfig config;
  EXPECT_FALSE(has_phases(config));
  EXPECT_EQ(of_phase(config, Phase::first).strategy.name(), "allreduce");
  EXPECT_EQ(switch_step(config, {100, 10}), std::nullopt);
}

TEST(Phases, TheSecondBeginsAtAStep) {
  EXPECT_EQ(switch_step(changing("80%"), {200, 10}), 160);
  EXPECT_EQ(switch_step(changing("30"), {200, 10}), 30);
  EXPECT_EQ(switch_step(changing("stall"), {200, 10}), std::nullopt);
  EXPECT_TRUE(changes_at_stall(changing("stall")));
  for (const char* at : {"0", "0%", "200", "300", "100%"})
    EXPECT_THROW(switch_step(changing(at), {200, 10}), BadInput) << at;
}

// Rounds of a given time have no number of steps, though local SGD may have one.
TEST(Phases, TimedRoundsLeaveTheIntervalToTheOtherWay) {
  Sayings sayings{{"sync", "local"},
                  {"then", "diloco"},
                  {"round-seconds", "5"},
                  {"every", "4"},
                  {"jitter-ms", "3"}};
  EXPECT_EQ(complaint(sayings), "");
  const TrainConfig config = said(sayings);
  EXPECT_EQ(of_phase(config, Phase::second).strategy.as<DiLoCo>()->every, 4);
  EXPECT_EQ(of_phase(config, Phase::first).strategy.capabilities().round.count(), 5);
  sayings[1].second = "allreduce";
  EXPECT_THAT(complaint(sayings), HasSubstr("every = 4 has no effect"));
}

TEST(Phases, WhatOneWayAloneHasIsNotRefusedForTheOther) {
  Sayings sayings{
      {"sync", "server"}, {"then", "allreduce"}, {"algorithm", "ring"}, {"pace", "ssp"}};
  EXPECT_EQ(complaint(sayings), "");
  sayings[1].second = "asup";
  sayings.pop_back();
  EXPECT_THAT(complaint(sayings), HasSubstr("algorithm = ring has no effect"));
}

TEST(Phases, TheFirstStopsWhereTheSecondBegins) {
  TrainConfig config = changing("50%");
  const RunLength length{200, 10};
  EXPECT_EQ(of_phase(config, Phase::first, length).stop_at, 100);
  EXPECT_EQ(of_phase(config, Phase::second, length).stop_at, std::nullopt);
  config.stop_at = 60;
  EXPECT_EQ(of_phase(config, Phase::first, length).stop_at, 60);
  config.stop_at = 160;
  EXPECT_EQ(of_phase(config, Phase::first, length).stop_at, 100);
  EXPECT_EQ(of_phase(config, Phase::second, length).stop_at, 160);
}

TEST(Phases, ServersAreThereFromTheStart) {
  const auto servers = [](const char* sync, const char* then) {
    return resolve(said({{"sync", sync}, {"then", then}})).servers;
  };
  EXPECT_EQ(servers("allreduce", "server"), 1);
  EXPECT_EQ(servers("asup", "local"), 1);
  EXPECT_EQ(servers("local", "allreduce"), 0);
}

TEST(Phases, WhatCannotBeIsRefused) {
  EXPECT_THAT(complaint({{"sync", "local"}, {"then", "local"}}),
              HasSubstr("that the run begins with"));
  EXPECT_THAT(complaint({{"sync", "local"}, {"then", "allreduce"}, {"at", "late"}}),
              HasSubstr("at = 'late' is no step"));
  EXPECT_THAT(complaint({{"sync", "local"}, {"at", "50%"}}), HasSubstr("at = 50% has no effect"));
  EXPECT_THAT(complaint({{"sync", "local"}, {"then", "allreduce"}, {"graph", "exponential"}}),
              HasSubstr("graph = exponential has no effect"));
  EXPECT_THAT(complaint({{"sync", "server"}, {"then", "allreduce"}, {"merge", "easgd"}}),
              HasSubstr("with parameters of their own"));
  Sayings sayings{{"sync", "diloco"}, {"then", "local"}, {"on-loss", "continue"}};
  EXPECT_EQ(complaint(sayings), "");
  sayings.emplace_back("checkpoint-every", "never");
  EXPECT_THAT(complaint(sayings), HasSubstr("Set checkpoint-every"));
  EXPECT_THAT(complaint({{"sync", "allreduce"}, {"then", "gossip"}, {"workers", "1"}}),
              HasSubstr("takes 2 workers at least"));
}

}  // namespace
}  // namespace asup::train
