#include "asup/kernels/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace asup::kernels {
namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

void check_copy(std::size_t bytes, std::size_t src_offset, std::size_t dst_offset) {
  SCOPED_TRACE(::testing::Message()
               << bytes << " bytes, offsets " << src_offset << ", " << dst_offset);
  std::vector<std::byte> src(src_offset + bytes + 8);
  std::vector<std::byte> dst(kGuard + dst_offset + bytes + kGuard, kGuardByte);
  std::mt19937_64 random(bytes);
  for (std::size_t i = 0; i + 8 <= src.size(); i += 8) {
    const std::uint64_t value = random();
    std::memcpy(src.data() + i, &value, 8);
  }
  std::byte* const begin = dst.data() + kGuard + dst_offset;
  kernels::copy(begin, src.data() + src_offset, bytes);
  EXPECT_EQ(std::memcmp(begin, src.data() + src_offset, bytes), 0);
  const auto is_guard = [](std::byte byte) { return byte == kGuardByte; };
  EXPECT_TRUE(std::all_of(dst.data(), begin, is_guard)) << "written before the destination";
  EXPECT_TRUE(std::all_of(begin + bytes, dst.data() + dst.size(), is_guard)) << "written behind it";
}

TEST(Copy, SmallSizes) {
  for (const std::size_t bytes : {0, 1, 7, 64, 4097, 1000003}) check_copy(bytes, 1, 3);
}

TEST(Copy, NothingIsFine) { copy(nullptr, nullptr, 0); }

// Above the size from which the copy goes around the caches.
TEST(Copy, LargeSizes) {
  constexpr std::size_t kLarge = std::size_t{32} << 20;
  check_copy(kLarge, 0, 0);
  check_copy(kLarge + 16383, 5, 0);
  check_copy(kLarge + 70001, 0, 61);
  check_copy(kLarge + 1, 3, 2);
}

}  // namespace
}  // namespace asup::kernels
