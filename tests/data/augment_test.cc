#include "asup/data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

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

TEST(Augment, RefusesShiftsBeyondTheImage) {
  EXPECT_THAT(message_of([] { make_augmented(images(), {.shift = 6}, 1); }),
              HasSubstr("6 x 7 pixels"));
  EXPECT_THAT(message_of([] { make_augmented(images(), {.shift = -1}, 1); }), HasSubstr("-1"));
}

}  // namespace
}  // namespace asup::data
