#include "asup/config/memory_size.h"

#include <gtest/gtest.h>

namespace asup {
namespace {

TEST(MemorySize, IsBytesOrUnitsOf1024) {
  for (const auto& [text, bytes] :
       {std::pair{"1", 1LL}, std::pair{"512K", 512LL << 10}, std::pair{"4G", 4LL << 30},
        std::pair{"1500", 1500LL}, std::pair{"3T", 3LL << 40}}) {
    const auto size = MemorySize::from_text(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(size->bytes, bytes);
    EXPECT_EQ(size->to_text(), text);
  }
  EXPECT_EQ(MemorySize::from_text("1.5G")->to_text(), "1536M");
  EXPECT_EQ(MemorySize::from_text("none"), MemorySize{});
  EXPECT_EQ(MemorySize{}.to_text(), "none");
}

TEST(MemorySize, IsNothingElse) {
  for (const char* text : {"", "G", "0", "-1G", "4g", "4GB", "x", "1e300", "nan", "inf", "9999T"})
    EXPECT_FALSE(MemorySize::from_text(text)) << text;
}

}  // namespace
}  // namespace asup
