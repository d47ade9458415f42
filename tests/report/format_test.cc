#include "asup/report/format.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace asup::report {
namespace {

TEST(Words, NumbersAsPeopleReadThem) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(60000), "60,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(percent(0.9123, 2), "91.23 %");
  EXPECT_EQ(loss_text(0.12344), "0.1234");
  EXPECT_EQ(loss_text(50397007285225168896.0), "5.04e+19");
  EXPECT_EQ(clock_time(65.4), "1:05");
  EXPECT_EQ(clock_time(59.9), "1:00");
  EXPECT_EQ(clock_time(3723), "1:02:03");
  EXPECT_EQ(clock_time(std::numeric_limits<double>::infinity()), "–:––");
  EXPECT_EQ(byte_size(999), "999 B");
  EXPECT_EQ(byte_size(12'345'678), "12.3 MB");
  EXPECT_EQ(byte_size(999'950'000), "1.0 GB");
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(2, "worker"), "2 workers");
}

TEST(Words, EscapeSequencesTakeNoColumns) {
  EXPECT_EQ(visible_width(""), 0);
  EXPECT_EQ(visible_width("━━ ab"), 5);
  EXPECT_EQ(visible_width("\x1b[1;32mok\x1b[0m!"), 3);
  EXPECT_EQ(visible_width("\x1b["), 0);
}

TEST(Words, LinesBreakBetweenWords) {
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("one two three", 13), "one two three");
  EXPECT_EQ(wrapped("one two three", 12), "one two\nthree");
  EXPECT_EQ(wrapped("one  two three", 8, 2), "one  two\n  three");
  EXPECT_EQ(wrapped("×× ×× \x1b[1m××\x1b[0m", 5), "×× ××\n\x1b[1m××\x1b[0m");
  EXPECT_EQ(wrapped("a/long/path is one word", 6), "a/long/path\nis one\nword");
  EXPECT_EQ(wrapped("first\n  - second one", 10), "first\n  - second\none");
  EXPECT_EQ(wrapped("a b", -3), "a\nb");
}

TEST(Words, ColumnsThatDoNotFitGoFromTheRight) {
  const std::vector<std::string> cells{"1/3", "\x1b[1m0.5\x1b[0m", "", "9 %"};
  const std::vector<int> widths{4, 5, 3, 4};
  EXPECT_EQ(table_row(cells, widths, 22), " 1/3    \x1b[1m0.5\x1b[0m        9 %");
  EXPECT_EQ(table_row(cells, widths, 21), " 1/3    \x1b[1m0.5\x1b[0m     ");
  EXPECT_EQ(table_row(cells, widths, 15), " 1/3    \x1b[1m0.5\x1b[0m");
  EXPECT_EQ(table_row(cells, widths, 10), " 1/3");
  EXPECT_EQ(table_row(cells, widths, 1), " 1/3");
}

}  // namespace
}  // namespace asup::report
