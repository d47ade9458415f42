#include "asup/data/subset.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace asup::data {
namespace {

std::vector<std::int64_t> both(const TwoParts& parts) {
  std::vector<std::int64_t> all = parts.kept;
  all.insert(all.end(), parts.set_aside.begin(), parts.set_aside.end());
  std::sort(all.begin(), all.end());
  return all;
}

TEST(SetAside, EachSampleIsInOneOfTheParts) {
  for (const std::size_t size : {2u, 3u, 10u, 1001u})
    for (const double share : {0.001, 0.1, 0.5}) {
      const TwoParts parts = set_aside(size, share, 7);
      const auto all = both(parts);
      ASSERT_EQ(all.size(), size);
      for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(all[i], static_cast<std::int64_t>(i));
      EXPECT_TRUE(std::is_sorted(parts.kept.begin(), parts.kept.end()));
      EXPECT_GE(parts.set_aside.size(), 1u);
      EXPECT_NEAR(static_cast<double>(parts.set_aside.size()), share * static_cast<double>(size),
                  1);
    }
}

TEST(SetAside, TheSeedChooses) {
  EXPECT_EQ(set_aside(1000, 0.1, 7).set_aside, set_aside(1000, 0.1, 7).set_aside);
  EXPECT_NE(set_aside(1000, 0.1, 7).set_aside, set_aside(1000, 0.1, 8).set_aside);
  const auto aside = set_aside(1000, 0.1, 7).set_aside;
  EXPECT_GT(aside.back() - aside.front(), 500);  // from all over
}

TEST(Subset, GivesTheSamplesOfTheOther) {
  DatasetOptions options;
  options.synthetic = {.train_size = 20, .shape = {1, 4, 4}};
  const auto open = [&] { return open_dataset("synthetic", Split::train, options); };
  const auto whole = open();
  const auto some = make_subset(open(), {3, 17, 4});
  ASSERT_EQ(some->size(), 3u);
  EXPECT_EQ(some->input_shape(), whole->input_shape());
  const Batch given = some->get(std::vector<std::int64_t>{1, 2, 1}),
              wanted = whole->get(std::vector<std::int64_t>{17, 4, 17});
  EXPECT_TRUE(given.input.equal(wanted.input));
  EXPECT_TRUE(given.target.equal(wanted.target));
  EXPECT_THROW(some->get(std::vector<std::int64_t>{3}), std::exception);
}

}  // namespace
}  // namespace asup::data
