#include "asup/train/checkpoint_info.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::train {
namespace {

using asup::testing::message_of;

TEST(CheckpointInfo, ComesBackAndIsChecked) {
  CheckpointInfo info;
  info.step = 12;
  info.ranks = 1;
  info.config.workers = 1;
  info.config.lr = 0.125;
  info.choices = {"native", 3, "order 1 0", {7, 5}, "the rates"};
  info.totals.samples = 99;
  const CheckpointInfo back = info_from(to_json(info), "path");
  EXPECT_EQ(back.step, 12);
  EXPECT_EQ(back.config.lr, 0.125);
  EXPECT_EQ(back.choices.observed, "order 1 0");
  EXPECT_EQ(back.choices.rates, "the rates");
  EXPECT_EQ(back.totals.samples, 99);

  TrainConfig config = back.config;
  EXPECT_NO_THROW(check_can_resume(back, config, 12));
  EXPECT_EQ(message_of<BadInput>([&] { check_can_resume(back, config, 11); }),
            "resume: the run has done 12 steps, which is more than the 11 asked for.");
  config.lr = 1;  // may change
  EXPECT_NO_THROW(check_can_resume(back, config, 12));
  config.batch = 7;
  EXPECT_EQ(message_of<BadInput>([&] { check_can_resume(back, config, 12); }),
            "resume: the run has batch = 128, which cannot become 7. Leave it as it was.");
  config.batch = 128;
  config.workers = 2;
  EXPECT_NO_THROW(check_can_resume(back, config, 12));
}

// 0 meant that asup chooses in checkpoints of before.
TEST(CheckpointInfo, OfAnotherVersionIsRefused) {
  nlohmann::ordered_json json = to_json(CheckpointInfo{});
  EXPECT_EQ(json["config"]["epochs"], "auto");
  json["config"]["epochs"] = "0";
  EXPECT_EQ(message_of<BadInput>([&] { info_from(json, "path"); }),
            "path: is a checkpoint of another version of asup (epochs: 0 is out of range (allowed: "
            "1 … 1000000000, or auto))");
}

}  // namespace
}  // namespace asup::train
