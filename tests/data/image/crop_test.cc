#include "asup/data/image/crop.h"

#include <gtest/gtest.h>

#include <cmath>

#include "asup/data/image/workspace.h"

namespace asup::data::image {
namespace {

TEST(CentreCrop, IsThatOfTorchvision) {
  // 500 x 375: the shorter side becomes 256, the longer 341; 224 of them from 16 and from 58 on.
  const Crop crop = centre_crop({500, 375}, 256, {224, 224});
  EXPECT_DOUBLE_EQ(crop.down.step, 375.0 / 256);
  EXPECT_DOUBLE_EQ(crop.down.origin, 16 * 375.0 / 256);
  EXPECT_DOUBLE_EQ(crop.across.step, 500.0 / 341);
  EXPECT_DOUBLE_EQ(crop.across.origin, 58 * 500.0 / 341);  // 58.5, rounded to even
  EXPECT_EQ(crop.across.count, 224);
  EXPECT_EQ(crop.across.low, 0);
  EXPECT_EQ(crop.across.high, 500);
}

TEST(SampleCrop, IsRandomOrTheMiddleOrTheWholePicture) {
  EXPECT_EQ(resized_side(224), 256);
  EXPECT_EQ(resized_side(28), 32);
  Random random(1), same(1);
  const Size picture{500, 375}, output{224, 224};
  EXPECT_DOUBLE_EQ(sample_crop(picture, 0, 256, output, random).down.step, 375.0 / 256);
  EXPECT_DOUBLE_EQ(sample_crop(output, 0, 256, output, random).down.step, 1);
  const Crop crop = sample_crop(picture, 0.3, 256, output, random);
  const Crop expected = random_crop(picture, 0.3, output, same);  // nothing was drawn before
  EXPECT_EQ(crop.across.low, expected.across.low);
  EXPECT_EQ(crop.down.high, expected.down.high);
}

TEST(RandomCrop, HasAreaAndShapeWithinBounds) {
  const Size picture{500, 375};
  double least = 1, most = 0, narrowest = 9, widest = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    Random random(1, i);
    const Crop crop = random_crop(picture, 0.08, {224, 224}, random);
    const double width = crop.across.high - crop.across.low,
                 height = crop.down.high - crop.down.low;
    ASSERT_GE(crop.across.low, 0);
    ASSERT_LE(crop.across.high, 500);
    ASSERT_GE(crop.down.low, 0);
    ASSERT_LE(crop.down.high, 375);
    ASSERT_DOUBLE_EQ(crop.across.step, width / 224);
    ASSERT_DOUBLE_EQ(crop.down.origin, crop.down.low);
    const double area = width * height / (500 * 375), ratio = width / height;
    least = std::min(least, area);
    most = std::max(most, area);
    narrowest = std::min(narrowest, ratio);
    widest = std::max(widest, ratio);
  }
  EXPECT_NEAR(least, 0.08, 0.01);
  EXPECT_GT(most, 0.97);
  EXPECT_NEAR(narrowest, 0.75, 0.02);
  EXPECT_NEAR(widest, 1.333, 0.02);
}

TEST(RandomCrop, OfANarrowPictureIsItsMiddle) {
  Random random(3);
  const Crop crop = random_crop({1000, 10}, 1.0, {8, 8}, random);
  EXPECT_EQ(crop.down.low, 0);
  EXPECT_EQ(crop.down.high, 10);
  EXPECT_EQ(crop.across.high - crop.across.low, 13);  // 4/3 of 10
  EXPECT_EQ(crop.across.low, 493);
}

TEST(Reduction, LeavesAtLeastThePixelsThatTheOutputHas) {
  const auto reduction = [](Size picture, int output) {
    return reduction_for(centre_crop(picture, output, {output, output}));
  };
  EXPECT_EQ(reduction({500, 375}, 224), 1);
  EXPECT_EQ(reduction({500, 448}, 224), 2);
  EXPECT_EQ(reduction({447, 447}, 224), 1);
  EXPECT_EQ(reduction({4000, 3000}, 224), 8);
  EXPECT_EQ(reduction({4000, 1000}, 224), 4);
  EXPECT_EQ(reduction({9000, 9000}, 224), 8);
}

}  // namespace
}  // namespace asup::data::image
