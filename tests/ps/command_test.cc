#include "asup/ps/command.h"

#include <gtest/gtest.h>

namespace asup::ps {
namespace {

Command sample_order() {
  Command command;
  command.version = 7;
  command.gain = 0.125;
  command.parts = {{0, 0, 3, 0.25}, {2, 0, 4, 0.75}};
  command.dropped = {{1, 0, 9, 0}};
  command.released = {0, 2};
  command.compares = true;
  return command;
}

TEST(Commands, AreReadAsTheyWereWritten) {
  const Command command = sample_order();
  EXPECT_EQ(read_command(head_of_command(command), payload_of(command)), command);
  EXPECT_EQ(read_command(head_of_command({}), {}), Command{});
}

TEST(Commands, OfAnotherLengthThanTheirHeadSaysAreNone) {
  const Command command = sample_order();
  auto payload = payload_of(command);
  payload.pop_back();
  EXPECT_FALSE(read_command(head_of_command(command), payload));
  CommandHead huge = head_of_command(command);
  huge.parts = huge.dropped = 0xffffffff;
  EXPECT_FALSE(read_command(huge, payload));
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
