#include "asup/base/base64.h"

#include <gtest/gtest.h>

namespace asup {
namespace {

// Of RFC 4648, section 10.
TEST(Base64, IsTheStandards) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("f"), "Zg==");
  EXPECT_EQ(to_base64("fo"), "Zm8=");
  EXPECT_EQ(to_base64("foo"), "Zm9v");
  EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(to_base64("\xff\xfb"), "//s=");
}

TEST(Base64, ComesBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64, RefusesWhatIsNone) {
  EXPECT_EQ(from_base64("Zg="), std::nullopt);
  EXPECT_EQ(from_base64("Z g="), std::nullopt);
  EXPECT_EQ(from_base64("===="), std::nullopt);
  EXPECT_EQ(from_base64("QQ=="), "A");
  EXPECT_EQ(from_base64("QR=="), std::nullopt);  // bits that no byte has
  EXPECT_EQ(from_base64("Q"), std::nullopt);
}

}  // namespace
}  // namespace asup
