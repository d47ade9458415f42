#include "asup/train/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::train {
namespace {

using asup::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(std::string_view name, const std::string& text) {
  TrainConfig config;
  return message_of<BadInput>(
      [&] { assign_text(config, *find_setting(name), text, fmt::format("--{}", name)); });
}

TEST(Settings, EveryRowHasItsOwnNameAndHelp) {
  std::set<std::string_view> names;
  for (const auto& setting : settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.help.empty()) << setting.name;
  }
}

// A row's usual value must be one that it allows, or config.toml could not be read again.
TEST(Settings, UsualValuesAreAllowed) {
  const TrainConfig usual;
  for (const auto& setting : settings()) {
    TrainConfig config;
    EXPECT_NO_THROW(assign_text(config, setting, text_of(usual, setting), setting.name))
        << setting.name;
    EXPECT_EQ(text_of(config, setting), text_of(usual, setting)) << setting.name;
  }
}

TEST(Settings, TextsBecomeValues) {
  TrainConfig config;
  assign_text(config, *find_setting("lr"), "1e-3", "");
  assign_text(config, *find_setting("batch"), "96", "");
  assign_text(config, *find_setting("nesterov"), "true", "");
  assign_text(config, *find_setting("optimizer"), "adamw", "");
  assign_text(config, *find_setting("checkpoint-every"), "50", "");
  assign_text(config, *find_setting("eval-every"), "never", "");
  EXPECT_EQ(config.lr, 1e-3);
  EXPECT_EQ(config.batch, 96);
  EXPECT_TRUE(config.nesterov);
  EXPECT_EQ(config.optimizer, "adamw");
  EXPECT_EQ(config.checkpoint_every, (Every{Every::Kind::steps, 50}));
  EXPECT_EQ(config.eval_every.kind, Every::Kind::never);
}

TEST(Settings, RefusalsSayNameValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal("batch", "0"), "--batch: 0 is out of range (allowed: 1 … 1000000000)");
  EXPECT_EQ(refusal("batch", "ten"),
            "--batch: 'ten' is not a whole number (allowed: 1 … 1000000000)");
  EXPECT_EQ(refusal("batch", "1.5"),
            "--batch: '1.5' is not a whole number (allowed: 1 … 1000000000)");
  EXPECT_EQ(refusal("batch", ""), "--batch: '' is not a whole number (allowed: 1 … 1000000000)");
  EXPECT_EQ(refusal("momentum", "1"), "--momentum: 1 is out of range (allowed: from 0, below 1)");
  EXPECT_THAT(refusal("lr", "nan"), HasSubstr("out of range"));
  EXPECT_THAT(refusal("lr", "-1"), HasSubstr("-1 is out of range (allowed: 0 … 1000)"));
  EXPECT_EQ(refusal("nesterov", "maybe"), "--nesterov: 'maybe' is not true or false");
  EXPECT_EQ(
      refusal("optimizer", "sdg"),
      "--optimizer: 'sdg' is none of sgd, adam, adamw, rmsprop, lars, asup; did you mean 'sgd'?");
  EXPECT_THAT(refusal("eval-every", "often"),
              HasSubstr("'often' is not 'epoch', 'never' or a number of steps"));
  EXPECT_THAT(refusal("eval-every", "0"), HasSubstr("0 is out of range"));
}

TEST(Settings, FlagsHoldWhatIsNotUsual) {
  TrainConfig config;
  config.lr = 0.1;
  config.nesterov = true;
  config.eval_every = {Every::Kind::steps, 7};
  config.out = "a folder";
  EXPECT_THAT(to_flags(config),
              ElementsAre("--lr=0.1", "--nesterov=true", "--out=a folder", "--eval-every=7"));
}

TEST(Settings, TomlHoldsTheRunButNotTheCall) {
  TrainConfig config;
  config.out = "somewhere";
  config.data = "a \"quoted\" \\ path";
  const std::string toml = to_toml(config);
  EXPECT_THAT(toml, HasSubstr("\ndata = \"a \\\"quoted\\\" \\\\ path\"  # "));
  EXPECT_THAT(toml, HasSubstr("\nbucket-mb = 25.0  # "));
  EXPECT_THAT(toml, HasSubstr("\neval-every = \"epoch\"  # "));
  EXPECT_THAT(toml, ::testing::Not(HasSubstr("\nout = ")));
}

}  // namespace
}  // namespace asup::train
