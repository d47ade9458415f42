#include "asup/train/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/train/said.h"

namespace asup::train {
namespace {

using testing::complaint;
using ::testing::HasSubstr;
using testing::said;
using ::testing::StartsWith;

TEST(Resolve, FillsInWhatIsLeftOpen) {
  EXPECT_EQ(resolve({}).lr, 0.05);
  EXPECT_EQ(resolve({}).epochs, 5);
  const TrainConfig adam = resolve(said({{"optimizer", "adam"}, {"steps", "10"}}));
  EXPECT_EQ(adam.lr, 0.001);
  EXPECT_EQ(adam.epochs, std::nullopt);
  EXPECT_EQ(resolve(said({{"optimizer", "lars"}})).lr, 1);
  EXPECT_EQ(resolve(said({{"optimizer", "lamb"}})).lr, 0.01);
  EXPECT_EQ(resolve(said({{"optimizer", "asup"}, {"momentum", "0.5"}})).lr, 0.0003);
  EXPECT_EQ(resolve(said({{"sync", "server"}})).servers, 1);
  EXPECT_EQ(resolve(said({{"sync", "server"}, {"servers", "3"}})).servers, 3);
  EXPECT_EQ(resolve(said({{"sync", "server"}, {"servers", "auto"}})).servers, 1);
  EXPECT_EQ(resolve({}).servers, 0);
  EXPECT_EQ(resolve(said({{"servers", "0"}})).servers, 0);
  EXPECT_EQ(resolve(said({{"epochs", "auto"}, {"lr", "auto"}})).epochs, 5);
}

TEST(Resolve, AZeroIsNoWayToLeaveSomethingOpen) {
  for (const char* name :
       {"epochs", "steps", "stop-at", "width", "depth", "lr", "decay-every", "threads"}) {
    const std::string message = complaint({{name, "0"}});
    EXPECT_THAT(message, StartsWith(fmt::format("--{}: 0 is out of range (allowed: ", name)));
    EXPECT_THAT(message, HasSubstr(std::string(name) == "stop-at" ? ", or end)" : ", or auto)"));
  }
  EXPECT_THAT(complaint({{"sync", "local"}, {"round-seconds", "0"}}), HasSubstr(", or none)"));
  EXPECT_THAT(complaint({{"sync", "local"}, {"round-seconds", "1"}, {"merge-deadline", "0"}}),
              HasSubstr("'0' is not 'auto', 'none' or a number of seconds"));
  for (const char* word : {"auto", "none"})
    EXPECT_EQ(complaint({{"sync", "local"}, {"round-seconds", "1"}, {"merge-deadline", word}}), "");
}

TEST(Resolve, RefusesWhatCannotWork) {
  EXPECT_THAT(complaint({{"sync", "nothing"}}), StartsWith("--sync: 'nothing' is none of"));
  EXPECT_THAT(complaint({{"batch", "3"}, {"workers", "4"}}),
              StartsWith("batch 3 is smaller than workers 4"));
  EXPECT_THAT(complaint({{"batch", "8"}, {"workers", "2"}, {"accumulate", "5"}}),
              StartsWith("accumulate 5 cannot cut up"));
  EXPECT_THAT(complaint({{"nesterov", "true"}, {"optimizer", "adam"}}), HasSubstr("not of adam's"));
  EXPECT_THAT(complaint({{"nesterov", "true"}, {"momentum", "0"}}), HasSubstr("needs a momentum"));
  EXPECT_EQ(complaint({{"model", "resnet18"}, {"width", "32"}}),
            "width = 32 has no effect: model resnet18 has widths of its own. Leave it out.");
  EXPECT_THAT(complaint({{"model", "cnn"}, {"depth", "3"}}), StartsWith("depth = 3 has no effect"));
  EXPECT_THAT(complaint({{"model", "mlp"}, {"stem", "small"}}), HasSubstr("how a ResNet begins"));
}

TEST(Resolve, RemaindersAreOfEveryWay) {
  for (const char* sync : {"allreduce", "server", "asup", "local", "diloco", "gossip", "adpsgd"})
    for (const char* remainder : {"keep", "drop", "pad"})
      EXPECT_EQ(complaint({{"sync", sync}, {"remainder", remainder}}), "");
  EXPECT_EQ(complaint({{"sync", "local"}, {"round-seconds", "1"}, {"remainder", "drop"}}), "");
}

TEST(Resolve, GoesOnAfterALossFromMemoryOrFromACheckpoint) {
  const std::vector<testing::Sayings> goes_back{
      {{"shard", "optimizer"}, {"on-loss", "continue"}},
      {{"model", "resnet18"}, {"sync-bn", "true"}, {"on-loss", "continue"}}};
  for (testing::Sayings sayings : goes_back) {
    EXPECT_EQ(complaint(sayings), "");
    sayings.emplace_back("checkpoint-every", "never");
    EXPECT_THAT(complaint(sayings), StartsWith("on-loss = continue goes on from the last"));
  }
  EXPECT_EQ(complaint({{"on-loss", "continue"}, {"checkpoint-every", "never"}}), "");
}

// By what strategies are capable of, with other settings of the run.
TEST(Resolve, RefusesWhatStrategiesAreNotCapableOf) {
  EXPECT_EQ(complaint({{"servers", "2"}}),
            "servers = 2 has no effect: sync = allreduce has none. Leave it out.");
  EXPECT_THAT(complaint({{"then", "asup"}, {"servers", "0"}}),
              HasSubstr("sync = asup keeps the parameters on servers, and there are none"));
  EXPECT_THAT(complaint({{"sync", "server"}, {"algorithm", "ring"}}),
              StartsWith("algorithm = ring has no effect: with servers"));
  EXPECT_THAT(complaint({{"sync", "local"}, {"balance", "true"}}),
              StartsWith("balance is for ways that exchange gradients in lockstep"));
  EXPECT_THAT(complaint({{"sync", "asup"}, {"balance", "true"}}),
              StartsWith("balance has no effect: through servers"));
  EXPECT_THAT(complaint({{"workers", "1"}, {"balance", "true"}}), HasSubstr("one worker"));
  for (const char* sync : {"server", "asup", "adpsgd"})
    EXPECT_THAT(complaint({{"sync", sync}, {"ema", "0.9"}}), HasSubstr("goes at its own pace"));
  EXPECT_THAT(complaint({{"sync", "local"}, {"round-seconds", "1"}, {"ema", "0.9"}}),
              HasSubstr("goes at its own pace"));
  EXPECT_THAT(complaint({{"then", "server"}, {"ema", "0.9"}}), HasSubstr("sync = server"));
  for (const char* sync : {"allreduce", "local", "diloco", "gossip"})
    EXPECT_EQ(complaint({{"sync", sync}, {"ema", "0.9"}}), "");
  EXPECT_THAT(complaint({{"sync", "gossip"}, {"workers", "1"}}),
              HasSubstr("sync = gossip takes 2 workers at least"));
  EXPECT_THAT(complaint({{"sync", "adpsgd"}, {"workers", "4"}, {"graph", "0-1,2-3"}}),
              HasSubstr("is not connected"));
  EXPECT_THAT(complaint({{"sync", "server"}, {"workers", "2"}, {"backup", "2"}}),
              StartsWith("backup = 2 leaves none of the 2 workers to wait for"));
  EXPECT_THAT(
      complaint({{"sync", "server"}, {"workers", "2"}, {"pace", "kasync"}, {"gather", "3"}}),
      StartsWith("gather = 3: an update cannot take more pushes than there are workers"));
  EXPECT_THAT(
      complaint({{"on-loss", "continue"}, {"checkpoint-every", "never"}, {"shard", "optimizer"}}),
      HasSubstr("there will be none"));
  EXPECT_EQ(complaint({{"on-loss", "continue"}, {"checkpoint-every", "never"}, {"sync", "local"}}),
            "");
}

TEST(Resolve, RefusesOptionsOfAWayThatDoNotGoTogether) {
  EXPECT_THAT(complaint({{"sync", "diloco"}, {"every", "4"}, {"fragments", "5"}}),
              StartsWith("fragments = 5 cannot be exchanged one by one in every = 4 steps"));
  EXPECT_THAT(complaint({{"sync", "diloco"}, {"outer-overlap", "100"}}),
              StartsWith("outer-overlap = 100 steps do not end before the next exchange"));
  EXPECT_THAT(complaint({{"sync", "gossip"}, {"every", "auto"}}),
              StartsWith("--every: 'auto' is not a whole number"));
  EXPECT_THAT(complaint({{"sync", "gossip"}, {"graph", "random"}}),
              StartsWith("--graph: 'random' is none of ring, exponential"));
}

TEST(Resolve, RefusesSettingsOfOtherWays) {
  EXPECT_THAT(complaint({{"every", "4"}}),
              StartsWith("every = 4 has no effect: sync = allreduce has no such setting; sync = "
                         "server, asup, local, diloco, "));
  for (const auto& [sync, name, value] :
       std::vector<std::array<const char*, 3>>{{"server", "jitter-ms", "5"},
                                               {"allreduce", "merge-state", "keep"},
                                               {"local", "buffers", "average"},
                                               {"local", "bucket-mb", "1"},
                                               {"gossip", "local-after", "4"},
                                               {"gossip", "round-seconds", "1"},
                                               {"adpsgd", "jitter-ms", "1"},
                                               {"diloco", "merge-state", "reset"},
                                               {"allreduce", "exchange-dtype", "bf16"},
                                               {"allreduce", "graph", "exponential"},
                                               {"local", "pace", "asp"},
                                               {"allreduce", "local-parameters", "head."}})
    EXPECT_THAT(complaint({{"sync", sync}, {name, value}}),
                StartsWith(fmt::format("{} = {} has no effect", name, value)));
}

TEST(Resolve, RefusesWhatWouldHaveNoEffect) {
  EXPECT_THAT(complaint({{"sync", "adpsgd"}, {"exchange-dtype", "int8"}}),
              HasSubstr("a copy of the model for each of its partners"));
  EXPECT_EQ(complaint({{"momentum", "0.5"}, {"optimizer", "adam"}}),
            "momentum = 0.5 has no effect: adam has a momentum of its own. Leave it out.");
  EXPECT_THAT(complaint({{"decay-every", "3"}}), HasSubstr("not step"));
  EXPECT_THAT(complaint({{"synthetic-samples", "3"}}),
              HasSubstr("data is fashion-mnist, not synthetic"));
  EXPECT_EQ(complaint({{"data", "synthetic"}, {"normalise", "0.5:0.5"}}),
            "normalise = 0.5:0.5 has no effect: data is synthetic, whose values are no pixels. "
            "Leave it out.");
  for (const char* data : {"synthetic", "fashion-mnist"})
    EXPECT_THAT(complaint({{"data", data}, {"data-threads", "2"}}),
                StartsWith("data-threads = 2 has no effect: data is "));
  EXPECT_EQ(complaint({{"data", "imagefolder:pictures"}, {"data-threads", "2"}}), "");
  EXPECT_THAT(complaint({{"model", "gpt"}, {"data", "./libmine.so"}}),
              HasSubstr("data = ./libmine.so is none"));
}

TEST(Resolve, RefusesWhatCountsTestsWhereThereAreNone) {
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"validation", "0.1"}, {"patience", "2"}, {"keep-best", "true"}}) {
    EXPECT_EQ(complaint({{name, value}}), "");
    EXPECT_THAT(complaint({{name, value}, {"eval-every", "never"}}),
                HasSubstr("has no effect: eval-every is never"));
  }
  EXPECT_THAT(complaint({{"model", "gpt"}, {"data", "text:book"}, {"validation", "0.1"}}),
              StartsWith("validation = 0.1 has no effect: data is a text"));
}

TEST(Resolve, ReadsShapes) {
  EXPECT_EQ(parse_shape("3x32x16"), (std::vector<std::int64_t>{3, 32, 16}));
  for (const auto* text : {"", "3", "3x32", "3x32x", "3x32x32x1", "3x0x3", "axbxc", "3,32,32"}) {
    EXPECT_THROW(parse_shape(text), BadInput) << text;
  }
}

}  // namespace
}  // namespace asup::train
