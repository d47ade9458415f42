#include "asup/train/state/require_statistics.h"

#include <gmock/gmock.h>

#include "asup/base/error.h"

namespace asup::train {
namespace {

using ::testing::HasSubstr;

std::string complaint(const torch::nn::Module& model, std::int64_t batch, std::int64_t accumulate,
                      std::size_t samples, const std::string& remainder = "keep") {
  TrainConfig config;
  config.workers = 4;
  config.batch = batch;
  config.accumulate = accumulate;
  config.remainder = remainder;
  try {
    require_statistics(model, config, samples);
    return "";
  } catch (const BadInput& bad) {
    return bad.what();
  }
}

TEST(RequireStatistics, BatchNormNeedsTwoSamplesAtATime) {
  const torch::nn::Sequential plain(torch::nn::Linear(2, 2));
  const torch::nn::Sequential normed(torch::nn::Sequential(torch::nn::BatchNorm1d(2)));
  EXPECT_EQ(complaint(*plain, 4, 1, 5), "");
  EXPECT_EQ(complaint(*normed, 8, 1, 80), "");
  EXPECT_THAT(complaint(*normed, 7, 1, 80), HasSubstr("a batch of at least 8"));
  EXPECT_THAT(complaint(*normed, 8, 2, 80), HasSubstr("a batch of at least 16"));
  EXPECT_THAT(complaint(*normed, 8, 1, 81), HasSubstr("remainder = drop or pad"));
  EXPECT_EQ(complaint(*normed, 8, 1, 81, "drop"), "");
}

}  // namespace
}  // namespace asup::train
