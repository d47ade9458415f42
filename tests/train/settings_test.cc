#include "asup/train/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "asup/asup.h"
#include "asup/distribute/ways.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"
#include "tests/train/said.h"

namespace asup::train {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::given;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::said;

TEST(Settings, EveryRowHasItsOwnNameAndHelp) {
  std::set<std::string_view> names;
  for (const auto& setting : settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
    EXPECT_FALSE(setting.group.empty()) << setting.name;
  }
  for (const std::string& name : names_of_way_settings())
    EXPECT_FALSE(names.contains(name)) << name << " is of the run and of a way";
}

TEST(Settings, ChangesOfColoursAreFourNumbers) {
  for (const char* text : {"none", "0.4,0.4,0.4,0.1", "0,1.5,0,0.5"}) {
    const auto jitter = ColourJitter::from_text(text);
    ASSERT_TRUE(jitter) << text;
    EXPECT_EQ(jitter->to_text(), text);
  }
  for (const char* text : {"", "0.4", "1,1,1", "1,1,1,0.6", "-1,0,0,0", "11,0,0,0", "1,1,1,0,0",
                           "1,1,1,x", "1,1,1,0.1,", "nan,0,0,0"})
    EXPECT_FALSE(ColourJitter::from_text(text)) << text;
}

TEST(Settings, ANormalisationIsMeansAndDeviations) {
  for (const char* text : {"auto", "imagenet", "0.5:0.25", "0.5,0.25,0:1,2,3"}) {
    const auto normalisation = PixelNormalisation::from_text(text);
    ASSERT_TRUE(normalisation) << text;
    EXPECT_EQ(normalisation->to_text(), text);
  }
  EXPECT_EQ(PixelNormalisation::from_text("imagenet")->mean.size(), 3u);
  for (const char* text : {"", "0.5", "0.5:", ":1", "0.5:0", "0.5:-1", "0.5,0.5:1", "a:b", "1:inf"})
    EXPECT_FALSE(PixelNormalisation::from_text(text)) << text;
}

TEST(Settings, ALivePageIsAPortOrAnAddressAndAPort) {
  for (const char* text : {"off", "on", "8080", "0.0.0.0:8080", "[::1]:65535"}) {
    const auto page = LivePage::from_text(text);
    ASSERT_TRUE(page) << text;
    EXPECT_EQ(page->to_text(), text);
    EXPECT_EQ(page->on, std::string_view(text) != "off");
  }
  EXPECT_EQ(LivePage::from_text("[::1]:80")->host, "::1");
  for (const char* text : {"", "0", "65536", "-1", ":80", "host:", "8080x", "true"})
    EXPECT_FALSE(LivePage::from_text(text)) << text;
}

TEST(Settings, UsualValuesAreAllowed) {
  for (const auto& setting : settings()) {
    TrainConfig config;
    const std::string usual = setting.field.text(&config);
    EXPECT_NO_THROW(setting.field.assign(setting, &config, usual, setting.name)) << setting.name;
    EXPECT_EQ(setting.field.text(&config), usual) << setting.name;
  }
}

TEST(Settings, AnUnknownNameIsRefusedWithTheNearest) {
  EXPECT_EQ(message_of<BadInput>([] {
              said({{"wokers", "2"}});
            }),
            "--wokers: there is no such setting; did you mean 'workers'?");
  EXPECT_THAT(message_of<BadInput>([] { said({{"outer-rl", "2"}}); }), HasSubstr("'outer-lr'"));
}

TEST(Settings, GoToTheStrategyThatWasChosen) {
  const TrainConfig config =
      said({{"sync", "server"}, {"pace", "ssp"}, {"staleness", "3"}, {"timeout", "9"}});
  EXPECT_EQ(std::get<Ssp>(config.strategy.as<ParameterServer>()->pace.row).staleness, 3);
  EXPECT_EQ(config.strategy.timeout.count(), 9);
  EXPECT_FALSE(config.then);
  const TrainConfig two = said({{"sync", "local"},
                                {"then", "diloco"},
                                {"every", "4"},
                                {"merge-state", "keep"},
                                {"outer-lr", "0.5"}});
  EXPECT_EQ(two.strategy.as<LocalSgd>()->every.steps, 4);
  EXPECT_EQ(two.strategy.as<LocalSgd>()->merge_state, MergeState::keep);
  EXPECT_EQ(two.then->as<DiLoCo>()->every, 4);
  EXPECT_EQ(two.then->as<DiLoCo>()->outer_lr, 0.5);
}

TEST(Settings, EpochsAndStepsExcludeEachOther) {
  EXPECT_THAT(message_of<BadInput>([] {
                said({{"epochs", "2"}, {"steps", "100"}});
              }),
              HasSubstr("give one of them"));
  config::Given sources = given({{"epochs", "2"}});
  sources.begin_source();
  sources.say("steps", "100", "--steps");
  EXPECT_EQ(config_from(sources).epochs, std::nullopt);
  EXPECT_EQ(config_from(sources).steps, 100);
}

// Files say everything; who then changes the way by a flag starts with that way's usual settings.
TEST(Settings, AChangedChoiceForgetsWhatWasSaidOfTheOneBefore) {
  config::Given sources =
      given({{"sync", "diloco"}, {"every", "50"}, {"outer-lr", "0.5"}, {"balance", "false"}});
  sources.begin_source();
  sources.say("sync", "local", "--sync");
  EXPECT_EQ(config_from(sources).strategy.as<LocalSgd>()->every.steps, 8);
  config::Given paces =
      given({{"sync", "server"}, {"servers", "2"}, {"pace", "ssp"}, {"staleness", "3"}});
  paces.begin_source();
  paces.say("pace", "asp", "--pace");
  EXPECT_EQ(config_from(paces).servers, 2);
  paces.begin_source();
  paces.say("sync", "gossip", "--sync");
  EXPECT_EQ(config_from(paces).servers, std::nullopt);
}

TEST(Settings, FlagsSayTheSameAgain) {
  const TrainConfig config = said({{"lr", "0.1"},
                                   {"nesterov", "true"},
                                   {"eval-every", "7"},
                                   {"out", "a folder"},
                                   {"sync", "diloco"},
                                   {"fragments", "3"}});
  const std::vector<std::string> flags = to_flags(config);
  for (const char* flag : {"--lr=0.1", "--nesterov=true", "--eval-every=7", "--out=a folder",
                           "--sync=diloco", "--fragments=3", "--outer-lr=0.5"})
    EXPECT_THAT(flags, Contains(flag));
  config::Given again;
  for (const std::string& flag : flags)
    again.say(flag.substr(2, flag.find('=') - 2), flag.substr(flag.find('=') + 1), flag);
  EXPECT_EQ(to_flags(config_from(again)), flags);
}

TEST(Settings, WhatWasNotSaidOfTwoStrategiesStaysUnsaid) {
  const TrainConfig config = said({{"sync", "local"}, {"then", "diloco"}});
  for (const std::string& flag : to_flags(config)) EXPECT_THAT(flag, Not(HasSubstr("--every=")));
}

TEST(Settings, TomlHoldsTheRunButNotTheCallAndReadsTheSame) {
  const TemporaryFolder folder;
  const TrainConfig config = said({{"out", "somewhere"},
                                   {"data", "a \"quoted\" \\ path"},
                                   {"lr", "0.30000000000000004"},
                                   {"eval-every", "3"},
                                   {"sync", "local"},
                                   {"every", "auto"}});
  const std::string toml = to_toml(config);
  EXPECT_THAT(toml, HasSubstr("\ndata = \"a \\\"quoted\\\" \\\\ path\"  # "));
  EXPECT_THAT(toml, HasSubstr("\neval-every = 3  # "));
  EXPECT_THAT(toml, HasSubstr("\n# local\n"));
  EXPECT_THAT(toml, HasSubstr("\nevery = \"auto\"  # "));
  EXPECT_THAT(toml, Not(HasSubstr("\nout = ")));
  config::Given read;
  read.read_toml(folder.write("config.toml", toml));
  EXPECT_EQ(to_toml(config_from(read)), toml);
}

// 0 meant that asup chooses in files of format 2.
TEST(Settings, AFileOfAnotherFormatIsRefused) {
  const TemporaryFolder folder;
  config::Given read;
  read.read_toml(folder.write("config.toml", "format = 2\nepochs = 0\n"));
  EXPECT_THAT(message_of<BadInput>([&] { config_from(read); }),
              HasSubstr("config.toml:1: format = 2: another version of asup wrote this file"));
  read.read_toml(folder.write("own.toml", "format = 3\nepochs = 0\n"));
  EXPECT_THAT(
      message_of<BadInput>([&] { config_from(read); }),
      HasSubstr("own.toml:2: epochs: 0 is out of range (allowed: 1 … 1000000000, or auto)"));
}

TEST(Settings, WhatIsLeftOpenStaysSo) {
  const TrainConfig config = said({{"epochs", "auto"}, {"steps", "9"}, {"stop-at", "end"}});
  EXPECT_EQ(config.epochs, std::nullopt);
  EXPECT_EQ(config.steps, 9);
  EXPECT_EQ(config.stop_at, std::nullopt);
  EXPECT_THAT(to_toml(config), HasSubstr("\nepochs = \"auto\"  # "));
  EXPECT_THAT(to_flags(config), Contains("--steps=9"));
}

}  // namespace
}  // namespace asup::train
