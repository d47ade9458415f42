#include "asup/base/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace asup {
namespace {

// Gradients of single samples are normal around G, with a variance of their own in each direction.
class Problem {
 public:
  Problem() {
    for (int i = 0; i < 20; ++i) {
      gradient_.push_back(0.1 * i);
      deviation_.push_back(1 + 0.2 * i);
    }
  }

  double squared_gradient() const { return squared(gradient_); }
  double variance() const { return squared(deviation_); }
  static double squared(const std::vector<double>& vector) {
    double sum = 0;
    for (const double x : vector) sum += x * x;
    return sum;
  }

  // Adds to `sum` the gradients of so many samples; returns the squared norm of their mean.
  double draw(int samples, std::vector<double>& sum) {
    std::vector<double> mean(gradient_.size());
    for (std::size_t i = 0; i < mean.size(); ++i) {
      for (int sample = 0; sample < samples; ++sample)
        mean[i] += gradient_[i] + deviation_[i] * normal_(random_);
      sum[i] += mean[i];
      mean[i] /= samples;
    }
    return squared(mean);
  }

 private:
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_;
  std::vector<double> gradient_, deviation_;
};

// One estimate: workers with these shares of a batch, and the mean of all samples.
void add_step(Problem& problem, const std::vector<int>& shares, NoiseScale& estimator) {
  std::vector<double> sum(20);
  double norm2 = 0, inverse = 0, samples = 0;
  for (const int share : shares) {
    norm2 += problem.draw(share, sum) / static_cast<double>(shares.size());
    inverse += 1.0 / share / static_cast<double>(shares.size());
    samples += share;
  }
  estimator.add(1 / inverse, norm2, samples, Problem::squared(sum) / (samples * samples));
}

TEST(NoiseScale, FindsTheVarianceAndTheGradientOfAKnownProblem) {
  Problem problem;
  NoiseScale estimator(1e9);
  for (int step = 0; step < 3000; ++step) add_step(problem, {8, 8, 8, 8}, estimator);
  EXPECT_EQ(estimator.estimates(), 3000u);
  EXPECT_NEAR(estimator.variance(), problem.variance(), 0.02 * problem.variance());
  EXPECT_NEAR(estimator.squared_gradient(), problem.squared_gradient(),
              0.02 * problem.squared_gradient());
  const double truth = problem.variance() / problem.squared_gradient();
  ASSERT_TRUE(estimator.noise_scale());
  EXPECT_NEAR(*estimator.noise_scale(), truth, 0.03 * truth);
}

TEST(NoiseScale, UnequalSharesCountByTheirHarmonicMean) {
  Problem problem;
  NoiseScale estimator(1e9);
  for (int step = 0; step < 3000; ++step) add_step(problem, {2, 5, 20}, estimator);
  const double truth = problem.variance() / problem.squared_gradient();
  EXPECT_NEAR(*estimator.noise_scale(), truth, 0.05 * truth);
}

TEST(NoiseScale, OneWorkersPartOfABatchIsEnough) {
  Problem problem;
  NoiseScale estimator(1e9);
  for (int step = 0; step < 5000; ++step) {
    std::vector<double> sum(20);
    const double small = problem.draw(4, sum);
    problem.draw(28, sum);
    estimator.add(4, small, 32, Problem::squared(sum) / (32 * 32));
  }
  const double truth = problem.variance() / problem.squared_gradient();
  EXPECT_NEAR(*estimator.noise_scale(), truth, 0.05 * truth);
}

TEST(NoiseScale, SaysByHandWhatOneStepTells) {
  NoiseScale estimator;
  EXPECT_EQ(estimator.noise_scale(), std::nullopt);
  // |G|^2 = 3 and tr(S) = 8: batches of 2 and of 8 have 3 + 4 and 3 + 1.
  estimator.add(2, 7, 8, 4);
  EXPECT_DOUBLE_EQ(estimator.variance(), 8);
  EXPECT_DOUBLE_EQ(estimator.squared_gradient(), 3);
  EXPECT_DOUBLE_EQ(*estimator.noise_scale(), 8.0 / 3);
}

TEST(NoiseScale, ForgetsWhatWasLongAgo) {
  NoiseScale estimator(10);
  for (int i = 0; i < 100; ++i) estimator.add(2, 7, 8, 4);
  for (int i = 0; i < 200; ++i) estimator.add(2, 3 + 50, 8, 3 + 12.5);  // tr(S) = 100
  EXPECT_NEAR(*estimator.noise_scale(), 100.0 / 3, 1e-6);
}

TEST(NoiseScale, LeavesOutWhatIsNoEstimate) {
  NoiseScale estimator;
  estimator.add(8, 4, 8, 4);
  estimator.add(0, 4, 8, 4);
  estimator.add(2, std::numeric_limits<double>::infinity(), 8, 4);
  estimator.add(2, 7, 8, std::nan(""));
  EXPECT_EQ(estimator.estimates(), 0u);
  estimator.add(1, 16, 2, 8);  // nothing but noise
  EXPECT_DOUBLE_EQ(estimator.squared_gradient(), 0);
  EXPECT_EQ(estimator.noise_scale(), std::nullopt);
  estimator.add(1, 4, 2, 4);  // no noise
  EXPECT_DOUBLE_EQ(estimator.variance(), 8);
}

}  // namespace
}  // namespace asup
