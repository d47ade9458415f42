#include "asup/data/image/formats.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace asup::data::image {
namespace {

constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <std::size_t N>
bool begins_with(std::span<const std::uint8_t> file, const std::array<std::uint8_t, N>& bytes) {
  return file.size() >= N && std::equal(bytes.begin(), bytes.end(), file.begin());
}

Decoder& built_in(const std::unique_ptr<Decoder>& decoder, const char* format,
                  const char* package) {
  if (decoder) return *decoder;
  throw BrokenImage(fmt::format(
      "is {}, which this asup cannot read: install {} and build asup again", format, package));
}

}  // namespace

bool has_image_name(std::string_view file) {
  const auto dot = file.rfind('.');
  if (dot == std::string_view::npos || file.starts_with('.')) return false;
  std::string ending(file.substr(dot + 1));
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return ending == "jpg" || ending == "jpeg" || ending == "png";
}

Decoders::Decoders() : jpeg_(make_jpeg_decoder()), png_(make_png_decoder()) {}

Decoder& Decoders::of(std::span<const std::uint8_t> file) {
  if (file.empty()) throw BrokenImage("is empty");
  if (begins_with(file, kJpeg)) return built_in(jpeg_, "a JPEG", "libjpeg62-turbo-dev");
  if (begins_with(file, kPng)) return built_in(png_, "a PNG", "libpng-dev");
  throw BrokenImage("is neither a JPEG nor a PNG");
}

void check_size(Size size) {
  const auto pixels = static_cast<std::int64_t>(size.width) * size.height;
  if (pixels <= 0) throw BrokenImage("has no pixels");
  if (pixels > kMostPixels)
    throw BrokenImage(fmt::format("has {} x {} pixels, more than the {} million that are read",
                                  size.width, size.height, kMostPixels / 1'000'000));
}

}  // namespace asup::data::image
