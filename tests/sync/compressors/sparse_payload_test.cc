#include "asup/sync/compressors/sparse_payload.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "asup/base/error.h"

namespace asup::sync {
namespace {

using Bytes = std::vector<std::byte>;

TEST(SparsePayload, BringsNumbersToTheirPlaces) {
  for (const std::size_t places : {1, 2, 4095, 4096, 4097, 20'000})
    for (const double share : {0.0, 0.001, 0.3, 1.0}) {
      std::mt19937 random(7);
      std::vector<float> numbers(places), expected(places, 5), got(places, 5);
      std::vector<std::uint32_t> chosen;
      for (std::size_t i = 0; i < places; ++i) {
        numbers[i] = static_cast<float>(i) - 100;
        if (std::uniform_real_distribution<>()(random) >= share) continue;
        chosen.push_back(static_cast<std::uint32_t>(i));
        expected[i] += numbers[i] / 4;
      }
      for (const std::size_t more : {0, 9}) {  // a payload may be longer than what is in it
        Bytes bytes(payload_bytes(places, chosen.size() + more), std::byte{0xab});
        pack(numbers.data(), places, chosen, bytes);
        got.assign(places, 5);
        add_unpacked(got.data(), places, bytes, 0.25);
        EXPECT_EQ(got, expected) << places << " places, " << chosen.size() << " chosen";
      }
    }
}

TEST(SparsePayload, OfOneInAThousandIsFewBytes) {
  const std::size_t places = 1 << 24, most = places / 1000;
  EXPECT_LT(payload_bytes(places, most) * 650, places * sizeof(float));
}

TEST(SparsePayload, BytesThatAreNoneAreRefused) {
  const std::vector<float> numbers(5000, 1);
  const std::vector<std::uint32_t> chosen{0, 4095, 4097, 4999};
  Bytes bytes(payload_bytes(5000, 4));
  pack(numbers.data(), 5000, chosen, bytes);
  std::vector<float> got(5000);
  const auto refuse = [&](Bytes changed, std::size_t places) {
    got.assign(5000, 0);
    EXPECT_THROW(add_unpacked(got.data(), places, changed, 1), Error);
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
