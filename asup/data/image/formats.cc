#include "asup/data/image/formats.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace asup::data::image {
namespace {

constexpr std::array<std::uint8_t, 3> kJpeg{0xFF, 0xD8, 0xFF};
constexpr std::array<std::uint8_t, 8> kPng{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};

template <std::size_t N>
bool begins_with(std::span<const std::uint8_t> file, const std::array<std::uint8_t, N>& bytes) {
  return file.size() >= N && std::equal(bytes.begin(), bytes.end(), file.begin());
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_jpeg_ending(std::string_view ending) {
  const std::string name = lower(ending);
  return name == "jpg" || name == "jpeg";
}

bool is_png_ending(std::string_view ending) { return lower(ending) == "png"; }

// What follows its last dot.
std::string_view ending_of(std::string_view file) {
  const auto dot = file.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : file.substr(dot + 1);
}

}  // namespace

bool is_image_ending(std::string_view ending) {
  return is_jpeg_ending(ending) || is_png_ending(ending);
}

bool has_image_name(std::string_view file) {
  return !file.starts_with('.') && is_image_ending(ending_of(file));
}

Decoders::Decoders() : Decoders(make_jpeg_decoder(), make_png_decoder()) {}

Decoders::Decoders(std::unique_ptr<Decoder> jpeg, std::unique_ptr<Decoder> png)
    : jpeg_(std::move(jpeg)), png_(std::move(png)) {}

Decoder& Decoders::jpeg() const {
  require(
      jpeg_ != nullptr,
      "there are JPEGs among the images, and this asup was built without libjpeg-turbo: install "
      "libjpeg-dev, and build it again");
  return *jpeg_;
}

Decoder& Decoders::png() const {
  require(png_ != nullptr,
          "there are PNGs among the images, and this asup was built without libpng: install "
          "libpng-dev, and build it again");
  return *png_;
}

void Decoders::check_reads(std::string_view file) const {
  const std::string_view ending = ending_of(file);
  if (is_jpeg_ending(ending)) (void)jpeg();
  if (is_png_ending(ending)) (void)png();
}

Decoder& Decoders::of(std::span<const std::uint8_t> file) {
  if (file.empty()) throw BrokenImage("is empty");
  if (begins_with(file, kJpeg)) return jpeg();
  if (begins_with(file, kPng)) return png();
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
