#include "asup/base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using ::testing::HasSubstr;

std::string brackets(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST(Json, IsNestedAsDeepAsAnythingNeeds) {
  EXPECT_TRUE(parse_json(brackets(kMostJsonDepth)).is_array());
  EXPECT_THAT(message_of<BadInput>([] { parse_json(brackets(kMostJsonDepth + 1)); }),
              HasSubstr("more than 64 levels"));
  EXPECT_TRUE(try_json(brackets(kMostJsonDepth + 1)).is_discarded());
}

TEST(Json, BracketsInTextsAreNoLevels) {
  const std::string text = "[\"\\\"" + brackets(100) + "\"]";
  EXPECT_EQ(parse_json(text).at(0).get<std::string>(), "\"" + brackets(100));
}

TEST(Json, ThatIsNoneIsRefused) {
  EXPECT_THAT(message_of<BadInput>([] { parse_json("{]"); }), HasSubstr("parse error"));
  EXPECT_TRUE(try_json("{]").is_discarded());
}

TEST(Json, NumbersThatDoNotFitAreRefused) {
  const auto json =
      parse_json(R"({"a": 300, "b": -1, "c": 1.5, "d": "7", "e": 18446744073709551615})");
  EXPECT_EQ(whole_in<int>(json, "a"), 300);
  EXPECT_EQ(whole_in<std::uint64_t>(json, "e"), ~std::uint64_t{0});
  EXPECT_EQ(message_of<BadInput>([&] { whole_in<std::uint8_t>(json, "a"); }),
            "its 'a' is 300, not a number from 0 to 255");
  for (const char* key : {"b", "c", "d"})
    EXPECT_THAT(message_of<BadInput>([&] { whole_in<std::uint64_t>(json, key); }), HasSubstr(key));
  EXPECT_THAT(message_of<BadInput>([&] { whole_in<int>(json, "e"); }), HasSubstr("'e'"));
}

TEST(Json, ListsOfNumbersAreReadTheSameWay) {
  const auto json = parse_json(R"({"a": [1, 2], "b": [1, 4e33], "c": [[1]], "d": []})");
  EXPECT_THAT(wholes_in<std::uint64_t>(json, "a"), ::testing::ElementsAre(1, 2));
  EXPECT_TRUE(wholes_in<int>(json, "d").empty());
  for (const char* key : {"b", "c"})
    EXPECT_THAT(message_of<BadInput>([&] { wholes_in<std::uint64_t>(json, key); }), HasSubstr(key));
}

}  // namespace
}  // namespace asup
