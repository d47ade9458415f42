#include "asup/data/colours.h"

#include <gtest/gtest.h>

#include <map>

namespace asup::data {
namespace {

using Step = ColourChange::Step;
using Pixels = std::vector<float>;

Pixels changed(Pixels image, Step step, float amount, std::size_t planes = 3) {
  ColourChange change;
  change.amount[step] = amount;
  change_colours(change, image.data(), planes, image.size() / planes);
  return image;
}

void expect_near(const Pixels& a, const Pixels& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << i;
}

// Two pixels: (0.8, 0.4, 0.2) and (0.1, 0.5, 0.9).
const Pixels kImage{0.8f, 0.1f, 0.4f, 0.5f, 0.2f, 0.9f};
const float kGrey0 = 0.2989f * 0.8f + 0.587f * 0.4f + 0.114f * 0.2f;
const float kGrey1 = 0.2989f * 0.1f + 0.587f * 0.5f + 0.114f * 0.9f;

TEST(Colours, BrightenByAFactor) {
  expect_near(changed(kImage, Step::brightness, 1.5f), {1, 0.15f, 0.6f, 0.75f, 0.3f, 1});
  expect_near(changed(kImage, Step::brightness, 0), Pixels(6, 0.0f));
}

TEST(Colours, ChangeContrastAboutTheMeanGrey) {
  const float mean = (kGrey0 + kGrey1) / 2;
  Pixels expected = kImage;
  for (float& value : expected) value = 0.5f * value + 0.5f * mean;
  expect_near(changed(kImage, Step::contrast, 0.5f), expected);
}

TEST(Colours, SaturateAboutEachPixelsGrey) {
  Pixels expected = kImage;
  for (std::size_t i = 0; i < 6; ++i)
    expected[i] = std::clamp(1.5f * kImage[i] - 0.5f * (i % 2 == 0 ? kGrey0 : kGrey1), 0.0f, 1.0f);
  expect_near(changed(kImage, Step::saturation, 1.5f), expected);
  expect_near(changed(kImage, Step::saturation, 0),
              {kGrey0, kGrey1, kGrey0, kGrey1, kGrey0, kGrey1});
}

TEST(Colours, TurnTheHue) {
  // A third of a turn: red becomes green, green blue, blue red.
  expect_near(changed(kImage, Step::hue, 1.0f / 3), {0.2f, 0.9f, 0.8f, 0.1f, 0.4f, 0.5f});
  // Half a turn about least 0.2 and most 0.8: the middle one, at a third of the range, is then at
  // two thirds of it.
  expect_near(changed({0.8f, 0.4f, 0.2f}, Step::hue, 0.5f), {0.2f, 0.6f, 0.8f});
  expect_near(changed({0.3f, 0.3f, 0.3f}, Step::hue, 0.2f), {0.3f, 0.3f, 0.3f});
}

TEST(Colours, OfGreyImagesAreBrightnessAndContrast) {
  const Pixels grey{0.2f, 0.6f};
  expect_near(changed(grey, Step::contrast, 0.5f, 1), {0.3f, 0.5f});
  expect_near(changed(grey, Step::saturation, 0.5f, 1), grey);
  expect_near(changed(grey, Step::hue, 0.4f, 1), grey);
}

TEST(Colours, AreDrawnWithinBoundsInAnyOrder) {
  std::map<std::array<Step, 4>, int> orders;
  std::array<float, 4> least{9, 9, 9, 9}, most{-9, -9, -9, -9};
  for (std::uint64_t i = 0; i < 5000; ++i) {
    Random random(2, i);
    const ColourChange change = draw_colours({0.4, 0, 1.5, 0.1}, random);
    ++orders[change.order];
    for (std::size_t k = 0; k < 4; ++k) {
      least[k] = std::min(least[k], change.amount[k]);
      most[k] = std::max(most[k], change.amount[k]);
    }
  }
  EXPECT_EQ(orders.size(), 24u);
  EXPECT_NEAR(least[0], 0.6, 0.01);
  EXPECT_NEAR(most[0], 1.4, 0.01);
  EXPECT_EQ(least[1], 1);
  EXPECT_EQ(most[1], 1);
  EXPECT_NEAR(least[2], 0, 0.01);  // not below
  EXPECT_NEAR(most[2], 2.5, 0.01);
  EXPECT_NEAR(least[3], -0.1, 0.001);
  EXPECT_NEAR(most[3], 0.1, 0.001);
}

}  // namespace
}  // namespace asup::data
