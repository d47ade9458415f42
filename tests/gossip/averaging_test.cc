#include "asup/gossip/averaging.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/kernels/code.h"

namespace asup::gossip {
namespace {

using ::testing::Each;

using Model = std::vector<float>;

// Both sides, as an exchange leaves them.
void average(Averaging& a, Averaging& b, std::size_t at_once = 1000) {
  a.begin();
  b.begin();
  std::copy(a.own().begin(), a.own().end(), b.theirs().begin());
  std::copy(b.own().begin(), b.own().end(), a.theirs().begin());
  while (!a.complete(at_once)) {
  }
  while (!b.complete(at_once)) {
  }
}

TEST(Averaging, ModelsBecomeTheirAverage) {
  Averaging a(5), b(5);
  Model x(5, 1.0f), y(5, 4.0f);
  EXPECT_TRUE(a.visit(x));
  EXPECT_TRUE(b.visit(y));
  average(a, b, 2);
  EXPECT_THAT(x, Each(1.0f));
  a.visit(x);
  b.visit(y);
  EXPECT_THAT(x, Each(2.5f));
  EXPECT_THAT(y, Each(2.5f));
}

// Each has the other as bf16 says it; the sum stays, and they differ by rounding.
TEST(Averaging, InBf16TheSumIsKept) {
  Averaging a(3000, true), b(3000, true);
  Model x(3000), y(3000);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = 1.0f + static_cast<float>(i) / 3000;
    y[i] = 2.0f - static_cast<float>(i) / 7000;
  }
  const Model before_x = x, before_y = y;
  a.visit(x);
  b.visit(y);
  const auto in_bf16 = [](const Averaging& from) {
    Model said(from.own().begin(), from.own().end());
    std::vector<std::byte> code(2 * said.size());
    kernels::encode(kernels::Code::bf16, code.data(), said.data(), said.size(),
                    {.decoded = said.data()});
    return said;
  };
  a.begin();
  b.begin();
  std::ranges::copy(in_bf16(a), b.theirs().begin());
  std::ranges::copy(in_bf16(b), a.theirs().begin());
  while (!a.complete(700)) {
  }
  while (!b.complete(1100)) {
  }
  a.visit(x);
  b.visit(y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(x[i] + y[i], before_x[i] + before_y[i], 1e-6);
    ASSERT_NEAR(x[i], y[i], 4.0f / 256);
  }
}

// Training moves both models between the exchange and the visit.
TEST(Averaging, NoGradientIsLost) {
  Averaging a(3), b(3);
  Model x(3, 1.0f), y(3, 4.0f);
  a.visit(x);
  b.visit(y);
  for (float& value : x) value += 10;
  average(a, b);
  for (float& value : y) value -= 2;
  a.visit(x);
  b.visit(y);
  EXPECT_THAT(x, Each(12.5f));
  EXPECT_THAT(y, Each(0.5f));
}

// A worker that is long in a step is averaged with several times: it comes no nearer to its
// partners than they are.
TEST(Averaging, ManyAveragesBetweenTwoVisitsDoNotOvershoot) {
  Averaging slow(1), fast(1);
  Model x{0}, y{8};
  slow.visit(x);
  for (const float expected : {4.0f, 6.0f, 7.0f}) {
    fast.visit(y);
    y = {8};  // training holds it there
    fast.visit(y);
    average(slow, fast);
    EXPECT_EQ(slow.own()[0], expected);
  }
  slow.visit(x);
  EXPECT_EQ(x[0], 7.0f);
}

TEST(Averaging, OwnStaysWhileAnExchangeIsUnderWay) {
  Averaging a(2);
  Model x{1, 1};
  a.visit(x);
  a.begin();
  x = {5, 5};
  EXPECT_FALSE(a.visit(x));
  EXPECT_THAT(a.own(), Each(1.0f));
  a.theirs()[0] = a.theirs()[1] = 3;
  EXPECT_FALSE(a.complete(1));
  EXPECT_FALSE(a.visit(x));
  EXPECT_THAT(x, ::testing::ElementsAre(6, 5));
  EXPECT_TRUE(a.complete(1));
  EXPECT_TRUE(a.visit(x));
  EXPECT_THAT(x, Each(6.0f));
  EXPECT_THAT(a.own(), Each(6.0f));
}

TEST(Averaging, WhatIsDroppedChangesNothing) {
  Averaging a(2);
  Model x{1, 1};
  a.visit(x);
  a.begin();
  a.theirs()[0] = 100;
  a.drop();
  EXPECT_TRUE(a.visit(x));
  EXPECT_THAT(x, Each(1.0f));
  EXPECT_THROW(a.complete(1), Error);
}

}  // namespace
}  // namespace asup::gossip
