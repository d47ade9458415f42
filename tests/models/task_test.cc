#include "asup/models/task.h"

#include <gtest/gtest.h>

namespace asup::models {
namespace {

// By the definition: targets become (1 - s) * target + s / classes.
double smoothed(const torch::Tensor& scores, const torch::Tensor& shares, double smoothing) {
  const torch::Tensor targets =
      (1 - smoothing) * shares + smoothing / static_cast<double>(scores.size(-1));
  return -(targets * torch::log_softmax(scores, -1)).sum().item<double>();
}

struct Task : ::testing::Test {
  Task() { torch::manual_seed(3); }
};

TEST_F(Task, SmoothingSpreadsAShareOfEachTargetOverAllClasses) {
  const torch::Tensor scores = torch::randn({6, 10}, torch::kFloat64);
  const torch::Tensor target = torch::randint(10, {6}, torch::kInt64);
  const torch::Tensor shares = torch::one_hot(target, 10).to(torch::kFloat64);
  for (const double smoothing : {0.0, 0.1, 0.9})
    EXPECT_NEAR(sum_of_losses(scores, target, smoothing).item<double>(),
                smoothed(scores, shares, smoothing), 1e-9);
  EXPECT_EQ(sum_of_losses(scores, target).item<double>(),
            sum_of_losses(scores, target, 0).item<double>());
}

TEST_F(Task, SmoothingIsOfMixedSamplesToo) {
  const torch::Tensor scores = torch::randn({6, 10}, torch::kFloat64);
  const torch::Tensor shares = torch::softmax(torch::randn({6, 10}, torch::kFloat64), 1);
  EXPECT_NEAR(sum_of_losses(scores, shares, 0.2).item<double>(), smoothed(scores, shares, 0.2),
              1e-9);
}

// A sample of text counts as one, however many tokens it has.
TEST_F(Task, SmoothingIsOfTextToo) {
  const torch::Tensor scores = torch::randn({2, 5, 7}, torch::kFloat64);
  const torch::Tensor target = torch::randint(7, {2, 5}, torch::kInt64);
  const torch::Tensor shares = torch::one_hot(target, 7).to(torch::kFloat64);
  EXPECT_NEAR(sum_of_losses(scores, target, 0.2).item<double>(), smoothed(scores, shares, 0.2) / 5,
              1e-9);
}

TEST_F(Task, CountsTargetsAmongTheHighestScores) {
  const torch::Tensor scores = torch::tensor({{5.0, 4.0, 3.0, 2.0}, {1.0, 2.0, 3.0, 4.0}});
  const auto among = [&](std::int64_t first, std::int64_t second, std::int64_t count) {
    return sum_among_highest(scores, torch::tensor({first, second}), count);
  };
  EXPECT_EQ(among(0, 3, 1), 2);
  EXPECT_EQ(among(1, 1, 1), 0);
  EXPECT_EQ(among(1, 1, 2), 1);
  EXPECT_EQ(among(3, 0, 3), 0);
}

}  // namespace
}  // namespace asup::models
