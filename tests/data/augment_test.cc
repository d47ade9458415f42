#include "asup/data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "asup/data/image_dataset.h"
#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Dataset> images() {
  DatasetOptions options{.seed = 4};
  options.synthetic.shape = {2, 6, 7};
  return open_dataset("synthetic", Split::train, options);
}

// The image moved by hand, the edge repeated.
torch::Tensor moved(const torch::Tensor& image, std::int64_t down, std::int64_t right,
                    bool mirror) {
  const auto pick = [](std::int64_t size, std::int64_t by) {
    return (torch::arange(size) - by).clamp(0, size - 1);
  };
  const torch::Tensor source = mirror ? image.flip(2) : image;
  return source.index_select(1, pick(image.size(1), down))
      .index_select(2, pick(image.size(2), right));
}

TEST(Augment, ShiftsAndMirrorsEachImageAsAWhole) {
  const auto plain = images();
  const auto augmented = make_augmented(images(), {.shift = 2, .flip = true}, 9);
  std::set<std::tuple<int, int, bool>> seen;
  for (std::int64_t index = 0; index < 300; ++index) {
    const std::vector<std::int64_t> one{index};
    const torch::Tensor before = plain->get(one).input[0], after = augmented->get(one).input[0];
    int matches = 0;
    for (int down = -2; down <= 2; ++down)
      for (int right = -2; right <= 2; ++right)
        for (const bool mirror : {false, true})
          if (moved(before, down, right, mirror).equal(after)) {
            ++matches;
            seen.emplace(down, right, mirror);
          }
    ASSERT_EQ(matches, 1) << index;
  }
  EXPECT_GE(seen.size(), 45u);  // of 50
}

TEST(Augment, DependsOnSeedEpochAndIndexAlone) {
  const auto a = make_augmented(images(), {.shift = 2, .flip = true}, 9);
  const auto other = make_augmented(images(), {.shift = 2, .flip = true}, 10);
  const std::vector<std::int64_t> many{3, 5, 8, 13, 21, 34}, few{8, 3};
  EXPECT_TRUE(a->get(many, 2).input[2].equal(a->get(few, 2).input[0]));
  EXPECT_TRUE(a->get(many, 2).input.equal(a->get(many, 2).input));
  EXPECT_FALSE(a->get(many, 2).input.equal(a->get(many, 3).input));
  EXPECT_FALSE(a->get(many, 2).input.equal(other->get(many, 2).input));
  EXPECT_TRUE(a->get(many, 2).target.equal(images()->get(many).target));
}

TEST(Augment, BelongsToTraining) {
  DatasetOptions options{.seed = 4};
  const std::vector<std::int64_t> some{1, 2, 3, 4, 5, 6};
  const auto differs = [&](Split split) {
    options.augment = {};
    const auto plain = open_dataset("synthetic", split, options)->get(some).input;
    options.augment = {.shift = 2, .flip = true};
    return !open_dataset("synthetic", split, options)->get(some).input.equal(plain);
  };
  EXPECT_TRUE(differs(Split::train));
  EXPECT_FALSE(differs(Split::test));
}

TEST(Augment, ShiftsInBlack) {
  Images bytes{1, 4, 4, std::vector<std::uint8_t>(16, 255), {0}, 1};
  const auto white = make_image_dataset("white", bytes, {{0.5}, {0.25}});
  const auto shifted = make_augmented(make_image_dataset("white", bytes, {{0.5}, {0.25}}),
                                      {.shift = 1, .black = true}, 3);
  const std::vector<std::int64_t> one{0};
  bool any = false;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    const auto image = shifted->get(one, epoch).input;
    const auto black = image.eq(-2).sum().item<int>(), left = image.eq(2).sum().item<int>();
    EXPECT_EQ(black + left, 16);
    EXPECT_TRUE(black == 0 || black == 4 || black == 7) << black;
    any = any || black > 0;
  }
  EXPECT_TRUE(any);
}

TEST(Augment, CutsOutASquareOfTheMean) {
  DatasetOptions options{.seed = 4};
  options.synthetic.shape = {2, 9, 11};
  const auto plain = open_dataset("synthetic", Split::train, options);
  const auto cut =
      make_augmented(open_dataset("synthetic", Split::train, options), {.cutout = 4}, 3);
  int whole = 0;
  for (std::int64_t index = 0; index < 100; ++index) {
    const std::vector<std::int64_t> one{index};
    const auto before = plain->get(one).input[0], after = cut->get(one).input[0];
    const auto gone = after.eq(0).all(0);  // in both channels
    EXPECT_TRUE(
        after.masked_select(gone.logical_not()).equal(before.masked_select(gone.logical_not())));
    const auto rows = gone.any(1).sum().item<int>(), columns = gone.any(0).sum().item<int>();
    EXPECT_EQ(gone.sum().item<int>(), rows * columns);  // a rectangle
    EXPECT_TRUE(rows >= 2 && rows <= 4 && columns >= 2 && columns <= 4) << rows << " x " << columns;
    whole += rows == 4 && columns == 4 ? 1 : 0;
  }
  EXPECT_GT(whole, 30);
}

TEST(Augment, ChangesColoursOnTheScaleOfPixels) {
  Images bytes{3, 1, 2, {200, 40, 100, 120, 50, 220}, {0}, 1};
  const Normalisation normalisation{{0.5, 0.4, 0.3}, {0.2, 0.25, 0.3}};
  const auto brighter = make_augmented(make_image_dataset("two", bytes, normalisation),
                                       {.jitter = {.brightness = 0.2}}, 3);
  const std::vector<std::int64_t> one{0};
  const auto pixels = [&](const Dataset& dataset, std::uint64_t epoch) {
    return dataset.get(one, epoch).input.flatten() *
               torch::tensor({.2f, .2f, .25f, .25f, .3f, .3f}) +
           torch::tensor({.5f, .5f, .4f, .4f, .3f, .3f});
  };
  const auto before = pixels(*make_image_dataset("two", bytes, normalisation), 0);
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    const auto after = pixels(*brighter, epoch);
    const double factor = after[1].item<double>() / before[1].item<double>();
    EXPECT_TRUE(factor > 0.799 && factor < 1.201) << factor;
    EXPECT_TRUE(after.allclose((before * factor).clamp_max(1), 1e-4, 1e-5));
  }
}

TEST(Augment, RefusesColoursOfWhatIsNoPicture) {
  EXPECT_THAT(message_of([] { make_augmented(images(), {.jitter = {.hue = 0.1}}, 1); }),
              HasSubstr("Leave augment-jitter out"));
}

TEST(Augment, RefusesShiftsBeyondTheImage) {
  EXPECT_THAT(message_of([] { make_augmented(images(), {.shift = 6}, 1); }),
              HasSubstr("6 x 7 pixels"));
  EXPECT_THAT(message_of([] { make_augmented(images(), {.shift = -1}, 1); }), HasSubstr("-1"));
}

}  // namespace
}  // namespace asup::data
