// In the place of plain_jpeg.cc where there is no libjpeg-turbo.
#include "asup/base/error.h"
#include "asup/bench/plain_jpeg.h"

namespace asup::bench {
namespace {

[[noreturn]] void fail() {
  throw BadInput(
      "this asup was built without libjpeg-turbo: install libjpeg-dev, and build it again");
}

}  // namespace

bool has_plain_jpeg() { return false; }

void decode_plain(std::span<const std::uint8_t>, int, std::vector<std::uint8_t>&) { fail(); }

std::vector<std::uint8_t> encode_plain(std::span<const std::uint8_t>, int, int, int) { fail(); }

}  // namespace asup::bench
