#include "asup/data/mixup.h"

#include <gtest/gtest.h>

#include <cmath>

#include "asup/data/random.h"

namespace asup::data {
namespace {

std::unique_ptr<Dataset> images() {
  DatasetOptions options{.seed = 4};
  options.synthetic.shape = {1, 4, 4};
  options.synthetic.train_size = 40;
  return open_dataset("synthetic", Split::train, options);
}

TEST(Mixup, MixesASampleAndItsTargetByTheSameShares) {
  const auto plain = images(), mixed = make_mixed(images(), 0.4, 9);
  std::vector<std::int64_t> all(40);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const Batch before = plain->get(all), after = mixed->get(all, 1);
  ASSERT_EQ(after.target.sizes(), (std::vector<std::int64_t>{40, 10}));
  EXPECT_TRUE(after.target.sum(1).allclose(torch::ones({40})));
  int found = 0;
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t partner = 0; partner < 40 && found <= i; ++partner) {
      // The share by which the first pixel is mixed, if this is the partner.
      const double a = before.input[i].flatten()[0].item<double>();
      const double b = before.input[partner].flatten()[0].item<double>();
      const double share = (after.input[i].flatten()[0].item<double>() - b) / (a - b);
      const auto mix = [&](const torch::Tensor& x, const torch::Tensor& y) {
        return x * share + y * (1 - share);
      };
      const auto classes = torch::one_hot(before.target, 10).to(torch::kFloat64);
      if (std::isfinite(share) &&
          mix(before.input[i], before.input[partner]).allclose(after.input[i], 1e-3, 1e-4) &&
          mix(classes[i], classes[partner])
              .allclose(after.target[i].to(torch::kFloat64), 1e-3, 1e-3))
        ++found;
    }
  EXPECT_GE(found, 38);  // one may be mixed with itself
}

TEST(Mixup, DependsOnSeedEpochAndIndexAlone) {
  const auto mixed = make_mixed(images(), 1, 9), other = make_mixed(images(), 1, 10);
  const std::vector<std::int64_t> many{3, 5, 8, 13}, few{8, 3};
  EXPECT_TRUE(mixed->get(many, 2).input[2].equal(mixed->get(few, 2).input[0]));
  EXPECT_TRUE(mixed->get(many, 2).target[2].equal(mixed->get(few, 2).target[0]));
  EXPECT_FALSE(mixed->get(many, 2).input.equal(mixed->get(many, 3).input));
  EXPECT_FALSE(mixed->get(many, 2).input.equal(other->get(many, 2).input));
  const std::vector<std::int64_t> none;
  EXPECT_EQ(mixed->get(none).target.sizes(), (std::vector<std::int64_t>{0, 10}));
}

TEST(Mixup, DrawsSharesFromBeta) {
  for (const double strength : {0.2, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    Random random(1);
    for (int i = 0; i < kDraws; ++i) {
      const double share = draw_share(strength, random);
      ASSERT_GE(share, 0);
      ASSERT_LE(share, 1);
      sum += share;
      squares += share * share;
    }
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 0.5, 0.015) << strength;
    EXPECT_NEAR(squares / kDraws - mean * mean, 1 / (4 * (2 * strength + 1)), 0.005) << strength;
  }
}

TEST(Mixup, BelongsToTraining) {
  DatasetOptions options;
  options.augment.mixup = 0.2;
  const std::vector<std::int64_t> one{0};
  EXPECT_EQ(open_dataset("synthetic", Split::train, options)->get(one).target.dim(), 2);
  EXPECT_EQ(open_dataset("synthetic", Split::test, options)->get(one).target.dim(), 1);
}

}  // namespace
}  // namespace asup::data
