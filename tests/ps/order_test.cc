#include "asup/ps/order.h"

#include <gtest/gtest.h>

namespace asup::ps {
namespace {

Order sample_order() {
  Order order;
  order.version = 7;
  order.lr = 0.125;
  order.parts = {{0, 0, 3, 0.25}, {2, 0, 4, 0.75}};
  order.dropped = {{1, 0, 9, 0}};
  order.released = {0, 2};
  order.save_as = "runs/a/step_7";
  return order;
}

TEST(Orders, AreReadAsTheyWereWritten) {
  const Order order = sample_order();
  EXPECT_EQ(read_order(head_of_order(order), payload_of(order)), order);
  EXPECT_EQ(read_order(head_of_order({}), {}), Order{});
}

TEST(Orders, OfAnotherLengthThanTheirHeadSaysAreNone) {
  const Order order = sample_order();
  auto payload = payload_of(order);
  payload.pop_back();
  EXPECT_FALSE(read_order(head_of_order(order), payload));
  OrderHead huge = head_of_order(order);
  huge.parts = huge.dropped = 0xffffffff;
  EXPECT_FALSE(read_order(huge, payload));
}

TEST(Messages, HaveAKindAndALength) {
  const auto head = head_of(Piece{5, {10, 20}, {}});
  EXPECT_EQ(kind_of(head), Kind::piece);
  ASSERT_TRUE(read<Piece>(head));
  EXPECT_EQ(read<Piece>(head)->range, (Range{10, 20}));
  EXPECT_FALSE(read<Commit>(head));
  EXPECT_FALSE(read<Piece>(net::ConstBytes(head).first(head.size() - 1)));
  EXPECT_FALSE(kind_of({}));
}

}  // namespace
}  // namespace asup::ps
