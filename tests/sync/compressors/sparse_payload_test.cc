#include "asup/sync/compressors/sparse_payload.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

using Bytes = std::vector<std::byte>;
constexpr auto kBf16 = SparseNumbers::bf16, kTwoBits = SparseNumbers::two_bits;

TEST(SparsePayload, BringsNumbersToTheirPlaces) {
  for (const std::size_t places : {1, 2, 4095, 4096, 4097, 20'000})
    for (const double share : {0.0, 0.001, 0.3, 1.0}) {
      std::mt19937 random(7);
      std::vector<float> numbers(places), expected(places, 5), got(places, 5);
      std::vector<std::uint32_t> chosen;
      for (std::size_t i = 0; i < places; ++i) {
        numbers[i] = static_cast<float>(i % 256) - 100;  // which 8 bits have
        if (std::uniform_real_distribution<>()(random) >= share) continue;
        chosen.push_back(static_cast<std::uint32_t>(i));
        expected[i] += numbers[i] / 4;
      }
      for (const std::size_t more : {0, 9}) {  // a payload may be longer than what is in it
        Bytes bytes(payload_bytes(places, chosen.size() + more, kBf16), std::byte{0xab});
        std::vector<float> rest = numbers;
        pack(rest.data(), places, chosen, bytes, kBf16);
        got.assign(places, 5);
        add_unpacked(got.data(), places, bytes, 0.25, kBf16);
        EXPECT_EQ(got, expected) << places << " places, " << chosen.size() << " chosen";
        for (const std::uint32_t place : chosen) EXPECT_EQ(rest[place], 0);
      }
    }
}

// To the bit: what has come and what has stayed are the number.
TEST(SparsePayload, WhatBf16DoesNotSayStays) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(5000), got(5000), rest;
  std::vector<std::uint32_t> chosen(5000);
  std::iota(chosen.begin(), chosen.end(), 0);
  for (float& number : numbers) number = normal(random);
  rest = numbers;
  Bytes bytes(payload_bytes(5000, 5000, kBf16));
  pack(rest.data(), 5000, chosen, bytes, kBf16);
  add_unpacked(got.data(), 5000, bytes, 1, kBf16);
  int rounded = 0;
  for (std::size_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(got[i] + rest[i], numbers[i]);
    EXPECT_LE(std::abs(rest[i]), std::abs(numbers[i]) / 256);
    rounded += rest[i] != 0;
  }
  EXPECT_GT(rounded, 4000);
}

// A step is skipped by what has come of it; what stays is nothing that would be in the next.
TEST(SparsePayload, WhatIsNoNumberTravelsAsItIs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> given{kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                                 std::bit_cast<float>(0x7f800001u),  // NaN by its lowest bit
                                 std::numeric_limits<float>::max()};
  const std::vector<std::uint32_t> chosen{0, 1, 2, 3, 4};
  std::vector<float> numbers = given, got(5);
  Bytes bytes(payload_bytes(5, 5, kBf16));
  pack(numbers.data(), 5, chosen, bytes, kBf16);
  add_unpacked(got.data(), 5, bytes, 1, kBf16);
  EXPECT_EQ(numbers, std::vector<float>(5));
  EXPECT_EQ(got[0], kInfinity);
  EXPECT_EQ(got[1], -kInfinity);
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(got[4], kInfinity);
}

TEST(SparsePayload, OfOneInAThousandIsFewBytes) {
  const std::size_t places = 1 << 24, most = places / 1000;
  EXPECT_LT(payload_bytes(places, most, kBf16) * 990, places * sizeof(float));
  EXPECT_LT(payload_bytes(places, places / 100, kTwoBits) * 190, places * sizeof(float));
}

// What two bits do not say stays where it was, and is less than without them.
TEST(SparsePayload, TwoBitsSayHowLargeANumberIsAndItsSign) {
  constexpr std::size_t kPlaces = 9000;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(kPlaces), got(kPlaces), rest;
  std::vector<std::uint32_t> chosen;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    numbers[i] = normal(random);
    if (std::abs(numbers[i]) > 1.5) chosen.push_back(static_cast<std::uint32_t>(i));
  }
  rest = numbers;
  Bytes bytes(payload_bytes(kPlaces, chosen.size() + 3, kTwoBits), std::byte{0xab});
  pack(rest.data(), kPlaces, chosen, bytes, kTwoBits);
  add_unpacked(got.data(), kPlaces, bytes, 1, kTwoBits);
  double lost = 0, all = 0;
  for (std::size_t i = 0; i < kPlaces; ++i) EXPECT_FLOAT_EQ(got[i] + rest[i], numbers[i]);
  for (const std::uint32_t place : chosen) {
    EXPECT_GT(got[place] * numbers[place], 0);
    lost += rest[place] * rest[place];
    all += numbers[place] * numbers[place];
  }
  EXPECT_LT(lost, 0.02 * all);
}

TEST(SparsePayload, TwoBitsOfNumbersThatAreAllAlikeAreExact) {
  std::vector<float> numbers(5000), got(5000);
  const std::vector<std::uint32_t> chosen{0, 4095, 4097, 4999};
  for (const std::uint32_t place : chosen) numbers[place] = place < 4096 ? 2 : -3;
  const std::vector<float> before = numbers;
  Bytes bytes(payload_bytes(5000, 4, kTwoBits));
  pack(numbers.data(), 5000, chosen, bytes, kTwoBits);
  add_unpacked(got.data(), 5000, bytes, 1, kTwoBits);
  EXPECT_EQ(got, before);
  EXPECT_EQ(numbers, std::vector<float>(5000));
}

TEST(SparsePayload, BytesThatAreNoneAreRefused) {
  std::vector<float> numbers(5000, 1);
  const std::vector<std::uint32_t> chosen{0, 4095, 4097, 4999};
  Bytes bytes(payload_bytes(5000, 4, kBf16));
  pack(numbers.data(), 5000, chosen, bytes, kBf16);
  std::vector<float> got(5000);
  const auto refuse = [&](Bytes changed, std::size_t places) {
    got.assign(5000, 0);
    EXPECT_THROW(add_unpacked(got.data(), places, changed, 1, kBf16), Error);
  };
  refuse({}, 5000);
  refuse(Bytes(bytes.begin(), bytes.end() - 1), 5000);
  Bytes many = bytes;
  many[1] = std::byte{0x20};  // more numbers than a block has places
  refuse(many, 5000);
  many[1] = std::byte{0x01};  // more than came
  refuse(many, 5000);
  refuse(bytes, 4900);  // a place beyond the end
  EXPECT_EQ(got[4899], 0);
}

}  // namespace
}  // namespace asup::sync
