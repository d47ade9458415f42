#include "asup/distribute/strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "asup/asup.h"
#include "asup/base/error.h"
#include "asup/distribute/ways.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

net::Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string refusal(std::map<std::string, std::string> variables) {
  return message_of<BadInput>([&] { Strategy::from(environment(std::move(variables))); });
}

TEST(Ways, HaveNamesSummariesAndExamplesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const Way* way : ways()) {
    EXPECT_TRUE(names.insert(way->name).second) << way->name;
    EXPECT_EQ(find_way(way->name), way);
    EXPECT_FALSE(way->summary.empty()) << way->name;
    EXPECT_THAT(std::string(way->example), HasSubstr(std::string(way->name)));
  }
  EXPECT_EQ(find_way("nothing"), nullptr);
}

// A row's usual value must be one that it allows, or config.toml could not be read again.
TEST(Ways, UsualValuesAreAllowedAndGoTogether) {
  for (const Way* way : ways()) {
    Strategy strategy(*way);
    EXPECT_NO_THROW(strategy.check()) << way->name;
    for (const config::Section& section : strategy.sections())
      for (const config::Setting& setting : section.settings) {
        const std::string usual = setting.field.text(section.options);
        EXPECT_FALSE(setting.help.empty()) << setting.name;
        EXPECT_NO_THROW(setting.field.assign(setting, section.options, usual, setting.name));
        EXPECT_EQ(setting.field.text(section.options), usual) << way->name << " " << setting.name;
      }
  }
}

TEST(Strategy, IsMadeOfTypedOptions) {
  const Strategy diloco = DiLoCo{.every = 7, .outer_lr = 0.5};
  EXPECT_EQ(diloco.name(), "diloco");
  ASSERT_NE(diloco.as<DiLoCo>(), nullptr);
  EXPECT_EQ(diloco.as<DiLoCo>()->every, 7);
  EXPECT_EQ(diloco.as<LocalSgd>(), nullptr);
  EXPECT_EQ(Strategy().name(), "allreduce");
  const Strategy servers = ParameterServer{.pace = Ssp{6}};
  EXPECT_EQ(server_options(*servers.as<ParameterServer>(), Seconds(1)).pace.staleness, 6);
}

TEST(Strategy, SaysWhatItIsCapableOf) {
  const Capabilities all_reduce = Strategy().capabilities();
  EXPECT_EQ(all_reduce.exchanges, Exchange::gradients);
  EXPECT_TRUE(all_reduce.lockstep && !all_reduce.survives_loss && !all_reduce.needs_servers);
  const Capabilities asup = Strategy(Asup{}).capabilities();
  EXPECT_TRUE(asup.needs_servers && asup.leases_samples && asup.survives_loss);
  EXPECT_EQ(asup.pace, "adaptive");
  const Capabilities elastic =
      Strategy(ParameterServer{.merge = Merge::easgd, .every = 3}).capabilities();
  EXPECT_TRUE(elastic.keeps_own_parameters);
  EXPECT_EQ(elastic.lease_steps, 3);
  EXPECT_TRUE(Strategy(LocalSgd{}).capabilities().lockstep);
  const Capabilities timed = Strategy(LocalSgd{.rounds = {.round_seconds = 5}}).capabilities();
  EXPECT_FALSE(timed.lockstep);
  EXPECT_EQ(timed.merge_deadline.count(), 10);
  EXPECT_TRUE(Strategy(AdPsgd{.graph = "0-1"}).capabilities().names_workers);
}

TEST(Strategy, VariablesGoOverTheFile) {
  const TemporaryFolder folder;
  const auto file = folder.write("strategy.toml", "buffers = \"average\"\nbucket-mb = 4\n");
  const auto strategy = Strategy::from(
      environment({{"ASUP_STRATEGY", file}, {"ASUP_BUCKET_MB", "8"}, {"ASUP_TIMEOUT", "30"}}));
  EXPECT_EQ(strategy.as<AllReduce>()->buffers, BufferSync::average);
  EXPECT_EQ(strategy.as<AllReduce>()->bucket_mb, 8);
  EXPECT_EQ(strategy.timeout.count(), 30);
  EXPECT_EQ(Strategy::from(environment({})).as<AllReduce>()->bucket_mb, 25);
  const auto servers = Strategy::from(
      environment({{"ASUP_SYNC", "server"}, {"ASUP_PACE", "ssp"}, {"ASUP_STALENESS", "9"}}));
  EXPECT_EQ(std::get<Ssp>(servers.as<ParameterServer>()->pace.row).staleness, 9);
}

TEST(Strategy, MistakesAreNamed) {
  EXPECT_EQ(refusal({{"ASUP_BUFFERS", "locl"}}),
            "ASUP_BUFFERS: 'locl' is none of local, broadcast, average; did you mean 'local'?");
  EXPECT_THAT(refusal({{"ASUP_SYNC", "nothing"}}), HasSubstr("ASUP_SYNC: 'nothing' is none of"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "diloko"}}), HasSubstr("did you mean 'diloco'?"));
  const TemporaryFolder folder;
  const auto file = folder.write("strategy.toml", "batch = 4\n");
  EXPECT_THAT(refusal({{"ASUP_STRATEGY", file}}), HasSubstr("batch: is no setting of a strategy"));
}

TEST(Strategy, WhatWouldHaveNoEffectIsRefused) {
  EXPECT_EQ(refusal({{"ASUP_PACE", "asp"}}),
            "pace = asp has no effect: sync = allreduce has no such setting; sync = server has. "
            "Leave it out.");
  EXPECT_EQ(refusal({{"ASUP_SYNC", "server"}, {"ASUP_PACE", "asp"}, {"ASUP_STALENESS", "4"}}),
            "staleness = 4 has no effect: pace is asp, not ssp. Leave it out.");
  EXPECT_THAT(refusal({{"ASUP_SYNC", "server"}, {"ASUP_EVERY", "8"}}),
              HasSubstr("every = 8 has no effect: merge is none"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "server"}, {"ASUP_COMPENSATION", "1"}}),
              HasSubstr("compensation = 1 has no effect: the pace is bsp: no gradient is late"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "server"},
                       {"ASUP_PACE", "asp"},
                       {"ASUP_MERGE", "mean"},
                       {"ASUP_COMPENSATION", "1"}}),
              HasSubstr("compensation = 1 has no effect: merge is mean"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "asup"}, {"ASUP_PACE", "bsp"}}),
              HasSubstr("pace = bsp has no effect: sync = asup has no such setting"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "local"}, {"ASUP_ROUND_SECONDS", "1"}, {"ASUP_EVERY", "4"}}),
              HasSubstr("every = 4 has no effect: round-seconds is 1, not none"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "local"}, {"ASUP_MERGE_DEADLINE", "4"}}),
              HasSubstr("merge-deadline = 4 has no effect: without round-seconds"));
  EXPECT_THAT(refusal({{"ASUP_SYNC", "local"}, {"ASUP_EVERY", "1"}, {"ASUP_LOCAL_AFTER", "5"}}),
              HasSubstr("local-after = 5 has no effect: every = 1"));
}

}  // namespace
}  // namespace asup
