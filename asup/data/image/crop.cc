#include "asup/data/image/crop.h"

#include <algorithm>
#include <cmath>

namespace asup::data::image {
namespace {

constexpr int kAttempts = 10;
constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;

// A part [low, low + size) of one side, resized.
Axis cut(int low, int size, int output) {
  return {static_cast<double>(low), static_cast<double>(size) / output, low, low + size, output};
}

// The middle of one side which, resized to `resized`, has `output` pixels.
Axis middle(int side, int resized, int output) {
  const double step = static_cast<double>(side) / resized;
  const double left = std::nearbyint((resized - output) / 2.0);  // halves to even, as in Python
  return {left * step, step, 0, side, output};
}

// exp() may differ in its last bit from one libm to another, and a crop by a pixel then.
double rounded(double value) { return std::round(value * 65536) / 65536; }

int below(Random& random, int bound) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
}

// The largest part in the middle that is neither too narrow nor too wide.
Crop middle_part(Size picture, Size output) {
  int width = picture.width, height = picture.height;
  const double ratio = static_cast<double>(width) / height;
  if (ratio < kNarrowest) height = static_cast<int>(std::round(width / kNarrowest));
  if (ratio > kWidest) width = static_cast<int>(std::round(height * kWidest));
  return {cut((picture.width - width) / 2, width, output.width),
          cut((picture.height - height) / 2, height, output.height)};
}

}  // namespace

Crop centre_crop(Size picture, int resized, Size output) {
  const int shorter = std::min(picture.width, picture.height);
  const auto resize = [&](int side) {
    return static_cast<int>(static_cast<std::int64_t>(resized) * side / shorter);
  };
  return {middle(picture.width, resize(picture.width), output.width),
          middle(picture.height, resize(picture.height), output.height)};
}

Crop whole(Size picture) {
  return {cut(0, picture.width, picture.width), cut(0, picture.height, picture.height)};
}

Crop fixed_crop(Size picture, int resized, Size output) {
  return picture == output ? whole(picture) : centre_crop(picture, resized, output);
}

Crop random_crop(Size picture, double least, Size output, Random& random) {
  const double area = static_cast<double>(picture.width) * picture.height;
  const double narrowest = std::log(kNarrowest), widest = std::log(kWidest);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const double part = area * (least + (1 - least) * static_cast<double>(random.uniform()));
    const double ratio =
        rounded(std::exp(narrowest + (widest - narrowest) * static_cast<double>(random.uniform())));
    const int width = static_cast<int>(std::round(std::sqrt(part * ratio)));
    const int height = static_cast<int>(std::round(std::sqrt(part / ratio)));
    if (width < 1 || height < 1 || width > picture.width || height > picture.height) continue;
    const int top = below(random, picture.height - height + 1);
    const int left = below(random, picture.width - width + 1);
    return {cut(left, width, output.width), cut(top, height, output.height)};
  }
  return middle_part(picture, output);
}

Crop sample_crop(Size picture, double least, int resized, Size output, Random& random) {
  return least > 0 ? random_crop(picture, least, output, random)
                   : fixed_crop(picture, resized, output);
}

}  // namespace asup::data::image
