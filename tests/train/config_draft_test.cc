#include "asup/train/config_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::train {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ConfigDraftTest : public ::testing::Test {
 protected:
  std::string refusal(const std::string& toml) {
    ConfigDraft draft;
    const auto path = folder_.write("job.toml", toml);
    const auto message = message_of<BadInput>([&] { draft.read_toml(path); });
    EXPECT_THAT(message, StartsWith(path));
    return message.substr(std::min(message.size(), path.size()));
  }
  TemporaryFolder folder_;
};

TEST_F(ConfigDraftTest, FlagsGoOverFiles) {
  ConfigDraft draft;
  draft.read_toml(
      folder_.write("job.toml", "batch = 64\nlr = 1\nmodel = \"mlp\"\nnesterov = true\n"));
  draft.set_flag(*find_setting("batch"), "32");
  EXPECT_EQ(draft.config().batch, 32);
  EXPECT_EQ(draft.config().lr, 1.0);
  EXPECT_EQ(draft.config().model, "mlp");
  EXPECT_TRUE(draft.config().nesterov);
  EXPECT_TRUE(draft.given("batch"));
  EXPECT_FALSE(draft.given("seed"));
}

TEST_F(ConfigDraftTest, WhatIsWrittenReadsTheSame) {
  TrainConfig config;
  config.data = "odd \"name\" \\ with\ttab";
  config.lr = 0.1 + 0.2;
  config.eval_every = {Every::Kind::steps, 3};
  config.nesterov = true;
  ConfigDraft draft;
  draft.read_toml(folder_.write("config.toml", to_toml(config)));
  for (const auto& setting : settings()) {
    EXPECT_EQ(text_of(draft.config(), setting), text_of(config, setting)) << setting.name;
  }
}

TEST_F(ConfigDraftTest, RefusalsSayFileLineAndKey) {
  EXPECT_EQ(refusal("batch = 64\nwokers = 2\n"),
            ":2: wokers: there is no such setting; did you mean 'workers'?");
  EXPECT_EQ(refusal("\n\nbatch = 0\n"), ":3: batch: 0 is out of range (allowed: 1 … 1000000000)");
  EXPECT_THAT(refusal("batch = \"many\"\n"), HasSubstr(":1: batch: 'many' is not a whole number"));
  EXPECT_THAT(refusal("batch = 1.5\n"), HasSubstr(":1: batch: 1.5 is not a whole number"));
  EXPECT_THAT(refusal("model = 3\n"), HasSubstr(":1: model: 3 is not a text"));
  EXPECT_THAT(refusal("[optimizer]\nlr = 1\n"), HasSubstr(":1: optimizer: a text, a number"));
  EXPECT_THAT(refusal("batch = [1]\n"), HasSubstr("not a table, list or date"));
  EXPECT_THAT(refusal("batch = = 3\n"), HasSubstr(":1: "));
  EXPECT_THAT(refusal("lr = 0.1\nlr = 0.2\n"), HasSubstr(":2: "));
}

TEST_F(ConfigDraftTest, FilesThatCannotBeReadAreNamed) {
  ConfigDraft draft;
  EXPECT_EQ(message_of<BadInput>([&] { draft.read_toml(folder_.file("none.toml")); }),
            folder_.file("none.toml") + ": cannot be read (No such file or directory)");
  EXPECT_EQ(message_of<BadInput>([&] { draft.read_toml(folder_.path()); }),
            folder_.path() + ": cannot be read (Is a directory)");
}

TEST_F(ConfigDraftTest, EpochsAndStepsExcludeEachOther) {
  EXPECT_THAT(refusal("epochs = 2\nsteps = 100\n"), HasSubstr("give one of them"));
  ConfigDraft draft;
  draft.read_toml(folder_.write("job.toml", "epochs = 2\n"));
  draft.set_flag(*find_setting("steps"), "100");
  EXPECT_EQ(draft.config().epochs, 0);
  EXPECT_EQ(draft.config().steps, 100);
  EXPECT_THROW(draft.set_flag(*find_setting("epochs"), "1"), BadInput);
}

std::string complaint(const std::function<void(TrainConfig&)>& change) {
  TrainConfig config;
  change(config);
  return message_of<BadInput>([&] { resolve(config); });
}

TEST(Resolve, FillsInWhatIsLeftOpen) {
  EXPECT_EQ(resolve({}).lr, 0.05);
  EXPECT_EQ(resolve({}).epochs, 5);
  TrainConfig adam;
  adam.optimizer = "adam";
  adam.steps = 10;
  EXPECT_EQ(resolve(adam).lr, 0.001);
  EXPECT_EQ(resolve(adam).epochs, 0);
  TrainConfig config;
  config.optimizer = "lars";
  EXPECT_EQ(resolve(config).lr, 1);
  config.optimizer = "asup";
  config.momentum = 0.5;
  EXPECT_EQ(resolve(config).lr, 0.0003);
}

TEST(Resolve, RefusesWhatCannotWork) {
  EXPECT_EQ(
      complaint([](auto& c) { c.sync = "nothing"; }),
      "sync = nothing is not available in this version of asup; allreduce, server, asup, local, "
      "diloco, gossip and adpsgd are.");
  EXPECT_THAT(complaint([](auto& c) { c.batch = 3, c.workers = 4; }),
              StartsWith("batch 3 is smaller than workers 4"));
  EXPECT_THAT(complaint([](auto& c) { c.batch = 8, c.workers = 2, c.accumulate = 5; }),
              StartsWith("accumulate 5 cannot cut up"));
  EXPECT_THAT(complaint([](auto& c) { c.nesterov = true, c.optimizer = "adam"; }),
              HasSubstr("not of adam's"));
  EXPECT_THAT(complaint([](auto& c) { c.nesterov = true, c.momentum = 0; }),
              HasSubstr("needs a momentum"));
}

TEST(Resolve, FillsInWhereWorkersStepOnTheirOwn) {
  TrainConfig config;
  config.sync = "local";
  EXPECT_EQ(resolve(config).every, "8");
  EXPECT_EQ(resolve(resolve(config)).every, "8");
  config.every = "auto";
  EXPECT_EQ(resolve(config).every, "auto");
  EXPECT_EQ(resolve(TrainConfig{}).every, "usual");
  config.every = "usual";
  config.sync = "diloco";
  EXPECT_EQ(resolve(config).every, "100");
  config.sync = "gossip";
  EXPECT_EQ(resolve(config).every, "1");
  config.sync = "adpsgd";
  EXPECT_EQ(resolve(config).every, "1");
  config.graph = "0-1";
  EXPECT_EQ(resolve(config).graph, "0-1");
}

TEST(Resolve, RefusesWhatDoesNotGoWithOwnSteps) {
  EXPECT_EQ(complaint([](auto& c) { c.every = "4"; }),
            "every = 4 has no effect: with sync = allreduce, workers do not step on their own. "
            "Leave it out.");
  EXPECT_THAT(complaint([](auto& c) { c.sync = "server", c.jitter_ms = 5; }),
              StartsWith("jitter-ms = 5 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.merge_state = "keep"; }),
              StartsWith("merge-state = keep has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.local_after = "30%"; }),
              StartsWith("local-after = 30% has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.every = "0"; }),
              StartsWith("every = 0 is no number of steps"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.local_after = "a third"; }),
              StartsWith("local-after = 'a third' is no number of steps and no share"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.local_after = "101%"; }),
              StartsWith("local-after = '101%'"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.every = "1", c.local_after = "5"; }),
              StartsWith("local-after = 5 has no effect: every = 1"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.buffers = "average"; }),
              StartsWith("buffers = average has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.bucket_mb = 1; }),
              StartsWith("bucket-mb = 1 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "gossip", c.workers = 1; }),
              HasSubstr("one worker has none"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "gossip", c.every = "auto"; }),
              StartsWith("every = auto is no number of steps"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "gossip", c.local_after = "4"; }),
              StartsWith("local-after = 4 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "gossip", c.graph = "random"; }),
              StartsWith("graph = 'random' is none of ring, exponential"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "gossip", c.round_seconds = 1; }),
              StartsWith("round-seconds = 1 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.round_seconds = 1, c.every = "4"; }),
              StartsWith("every = 4 has no effect: models are merged every round-seconds"));
  EXPECT_THAT(complaint([](auto& c) { c.round_seconds = 1; }),
              StartsWith("round-seconds = 1 has no effect: with sync = allreduce"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "adpsgd", c.workers = 1; }),
              HasSubstr("use two workers or more"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "adpsgd", c.workers = 4, c.graph = "0-1,2-3"; }),
              HasSubstr("is not connected"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "adpsgd", c.merge_state = "keep"; }),
              StartsWith("merge-state = keep has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "adpsgd", c.jitter_ms = 1; }),
              StartsWith("jitter-ms = 1 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "adpsgd", c.remainder = "drop"; }),
              StartsWith("remainder = drop has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "diloco", c.every = "4", c.fragments = 5; }),
              StartsWith("fragments = 5 cannot be exchanged one by one in every = 4 steps"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "diloco", c.outer_overlap = 100; }),
              StartsWith("outer-overlap = 100 steps do not end before the next exchange"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "diloco", c.merge_state = "reset"; }),
              StartsWith("merge-state = reset has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.outer_lr = 1; }), StartsWith("outer-lr = 1 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "gossip", c.exchange_dtype = "bf16"; }),
              StartsWith("exchange-dtype = bf16 has no effect: it is a choice of sync = diloco"));
  EXPECT_THAT(complaint([](auto& c) { c.graph = "exponential"; }),
              StartsWith("graph = exponential has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "local", c.pace = "asp"; }),
              StartsWith("pace = asp has no effect"));
}

TEST(Resolve, RefusesPacesAndServersThatDoNotGoTogether) {
  EXPECT_EQ(complaint([](auto& c) { c.servers = 2; }),
            "servers = 2 has no effect: sync = allreduce has none. Leave it out.");
  EXPECT_EQ(
      complaint([](auto& c) { c.pace = "asp"; }),
      "pace = asp has no effect: sync = allreduce has no servers, whose it is. Leave it out.");
  EXPECT_THAT(complaint([](auto& c) { c.staleness = 4; }),
              StartsWith("staleness = 4 has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.backup = 1; }), StartsWith("backup = 1 has no effect"));
  EXPECT_THAT(
      complaint([](auto& c) { c.local_parameters = "head."; }),
      StartsWith("local-parameters = head. has no effect: sync = allreduce has no servers"));
  EXPECT_THAT(complaint([](auto& c) { c.non_finite = "fatal"; }),
              StartsWith("non-finite = fatal has no effect"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "server", c.compensation = 0.1; }),
              StartsWith("compensation = 0.1 has no effect: the pace is bsp: no gradient is late"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "server", c.freeze_pace = true; }),
              StartsWith("freeze-pace = true has no effect: the pace is bsp, not adaptive"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "server", c.buffers = "average"; }),
              StartsWith("buffers = average has no effect: with servers"));
  EXPECT_EQ(complaint([](auto& c) { c.sync = "server", c.pace = "asp", c.staleness = 4; }),
            "staleness = 4 has no effect: the pace is asp, not ssp. Leave it out.");
  EXPECT_EQ(complaint([](auto& c) { c.sync = "server", c.pace = "ssp", c.backup = 1; }),
            "backup = 1 has no effect: the pace is ssp, not bsp. Leave it out.");
  EXPECT_THAT(complaint([](auto& c) { c.sync = "server", c.workers = 2, c.backup = 2; }),
              StartsWith("backup = 2 leaves none of the 2 workers to wait for"));
  EXPECT_THAT(complaint([](auto& c) { c.sync = "asup", c.pace = "bsp"; }),
              StartsWith("sync = asup is the server at an adaptive pace, and pace = bsp another"));
}

TEST(Resolve, RefusesWhatWouldHaveNoEffect) {
  EXPECT_EQ(complaint([](auto& c) { c.momentum = 0.5, c.optimizer = "adam"; }),
            "momentum = 0.5 has no effect: adam has a momentum of its own. Leave it out.");
  EXPECT_THAT(complaint([](auto& c) { c.decay_every = 3; }), HasSubstr("not step"));
  EXPECT_THAT(complaint([](auto& c) { c.synthetic_samples = 3; }),
              HasSubstr("data is fashion-mnist, not synthetic"));
}

TEST(Resolve, ReadsShapes) {
  EXPECT_EQ(parse_shape("3x32x16"), (std::vector<std::int64_t>{3, 32, 16}));
  for (const auto* text : {"", "3", "3x32", "3x32x", "3x32x32x1", "3x0x3", "axbxc", "3,32,32"}) {
    EXPECT_THROW(parse_shape(text), BadInput) << text;
  }
}

}  // namespace
}  // namespace asup::train
