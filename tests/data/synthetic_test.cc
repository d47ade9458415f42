#include "asup/data/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::HasSubstr;

SyntheticOptions small() {
  return {.train_size = 300, .test_size = 100, .shape = {3, 12, 16}, .classes = 5};
}

std::vector<std::int64_t> range(std::int64_t end) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(end));
  for (std::int64_t i = 0; i < end; ++i) all[static_cast<std::size_t>(i)] = i;
  return all;
}

TEST(Synthetic, HasTheShapeAskedFor) {
  const auto train = make_synthetic(small(), 1, Split::train);
  EXPECT_EQ(train->size(), 300u);
  EXPECT_EQ(make_synthetic(small(), 1, Split::test)->size(), 100u);
  EXPECT_EQ(train->input_shape(), (std::vector<std::int64_t>{3, 12, 16}));
  EXPECT_EQ(train->classes(), 5);
  const Batch batch = train->get(range(10));
  EXPECT_EQ(batch.input.sizes().vec(), (std::vector<std::int64_t>{10, 3, 12, 16}));
  EXPECT_EQ(batch.input.dtype(), torch::kFloat32);
  EXPECT_EQ(batch.target.dtype(), torch::kInt64);
}

TEST(Synthetic, DependsOnSeedSplitAndIndexAlone) {
  const auto a = make_synthetic(small(), 1, Split::train);
  const auto b = make_synthetic(small(), 1, Split::train);
  const std::vector<std::int64_t> one{17}, several{4, 17, 250};
  EXPECT_TRUE(a->get(several).input[1].equal(b->get(one).input[0]));
  EXPECT_TRUE(a->get(one, 0).input.equal(a->get(one, 5).input));
  EXPECT_FALSE(a->get(one).input.equal(make_synthetic(small(), 2, Split::train)->get(one).input));
  EXPECT_FALSE(a->get(one).input.equal(make_synthetic(small(), 1, Split::test)->get(one).input));
}

TEST(Synthetic, HasBalancedClassesAndUnitNoise) {
  auto options = small();
  const auto with = make_synthetic(options, 1, Split::train)->get(range(300));
  options.noise = 0;
  const auto without = make_synthetic(options, 1, Split::train)->get(range(300));
  EXPECT_TRUE(with.target.bincount().equal(torch::full({5}, 60)));
  const torch::Tensor noise = with.input - without.input;
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(noise.std().item<double>(), 1, 0.02);
  EXPECT_NEAR(without.input.std().item<double>(), 0.75, 0.3);
}

// Learnable: the mean of the training images of a class finds the test images of that class.
TEST(Synthetic, PatternsOfTrainingHoldInTesting) {
  const auto train = make_synthetic(small(), 1, Split::train)->get(range(300));
  const auto test = make_synthetic(small(), 1, Split::test)->get(range(100));
  std::vector<torch::Tensor> means;
  for (int label = 0; label < 5; ++label)
    means.push_back(train.input.index({train.target == label}).mean(0).flatten());
  const auto guess = torch::cdist(test.input.flatten(1), torch::stack(means)).argmin(1);
  EXPECT_GE(guess.eq(test.target).sum().item<int>(), 95);
}

TEST(Synthetic, RefusesSizesThatMakeNoSense) {
  const auto refusal = [](auto change) {
    auto options = small();
    change(options);
    return message_of([&] { make_synthetic(options, 1, Split::train); });
  };
  EXPECT_THAT(refusal([](auto& o) { o.shape = {28, 28}; }), HasSubstr("[28, 28]"));
  EXPECT_THAT(refusal([](auto& o) { o.shape[1] = 0; }), HasSubstr("[3, 0, 16]"));
  EXPECT_THAT(refusal([](auto& o) { o.train_size = 0; }), HasSubstr("at least 1 sample"));
  EXPECT_THAT(refusal([](auto& o) { o.classes = 0; }), HasSubstr("at least 1 class"));
  EXPECT_THAT(refusal([](auto& o) { o.noise = -1; }), HasSubstr("noise"));
}

}  // namespace
}  // namespace asup::data
