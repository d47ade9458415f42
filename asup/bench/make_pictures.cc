// The part of images.h that makes pictures.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/images.h"
#include "asup/bench/plain_jpeg.h"
#include "asup/data/random.h"

namespace asup::bench {
namespace {

constexpr int kWidth = 500, kHeight = 375, kQuality = 90;

// Random values on a grid of `cell` pixels, linear between them, added to `plane`.
void add_noise(std::vector<float>& plane, int cell, float strength, data::Random& random) {
  const int across = kWidth / cell + 2, down = kHeight / cell + 2;
  std::vector<float> grid(static_cast<std::size_t>(across * down));
  for (float& value : grid) value = strength * (2 * random.uniform() - 1);
  for (int y = 0; y < kHeight; ++y)
    for (int x = 0; x < kWidth; ++x) {
      const float* at = grid.data() + (y / cell) * across + x / cell;
      const float u = static_cast<float>(x % cell) / static_cast<float>(cell);
      const float v = static_cast<float>(y % cell) / static_cast<float>(cell);
      const float above = at[0] + u * (at[1] - at[0]);
      const float below = at[across] + u * (at[across + 1] - at[across]);
      plane[static_cast<std::size_t>(y * kWidth + x)] += above + v * (below - above);
    }
}

// Strength falls with the scale, as in photographs.
std::vector<float> make_plane(float strength, int finest, data::Random& random) {
  std::vector<float> plane(static_cast<std::size_t>(kWidth * kHeight));
  for (int cell = 128; cell >= finest; cell /= 2)
    add_noise(plane, cell, strength * std::pow(static_cast<float>(cell) / 128, 0.4f), random);
  return plane;
}

std::vector<std::uint8_t> make_picture(std::uint64_t seed) {
  data::Random random(seed);
  const auto light = make_plane(70, 1, random);
  std::vector<std::uint8_t> rgb(light.size() * 3);
  for (std::size_t c = 0; c < 3; ++c) {
    const auto colour = make_plane(30, 8, random);
    for (std::size_t i = 0; i < light.size(); ++i)
      rgb[3 * i + c] =
          static_cast<std::uint8_t>(std::clamp(120 + light[i] + colour[i], 0.0f, 255.0f));
  }
  return rgb;
}

}  // namespace

void make_pictures(const std::string& folder, int count) {
  require(has_plain_jpeg(),
          "pictures cannot be made by this asup, which was built without "
          "libjpeg-turbo: install libjpeg-dev and build it again, or give --data");
  for (int i = 0; i < count; ++i) {
    const std::filesystem::path in = std::filesystem::path(folder) /
                                     (i % 8 == 7 ? "val" : "train") /
                                     (i / 8 % 2 == 0 ? "even" : "odd");
    std::filesystem::create_directories(in);
    const auto file =
        encode_plain(make_picture(static_cast<std::uint64_t>(i)), kWidth, kHeight, kQuality);
    write_atomically(in / fmt::format("{:05}.jpg", i), std::string(file.begin(), file.end()));
  }
}

}  // namespace asup::bench
