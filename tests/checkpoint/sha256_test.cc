#include "asup/checkpoint/sha256.h"

#include <gtest/gtest.h>

namespace asup::checkpoint {
namespace {

// FIPS 180-2, appendix B.1.
TEST(Sha256, OfAbc) {
  Sha256 hash;
  hash.add("a");
  hash.add("bc");
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace asup::checkpoint
