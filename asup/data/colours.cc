#include "asup/data/colours.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace asup::data {
namespace {

// Brightness as an eye sees it, ITU-R BT.601.
float grey_of(float red, float green, float blue) {
  return 0.2989f * red + 0.587f * green + 0.114f * blue;
}

struct Picture {
  float* image;
  std::size_t planes, size;

  float grey(std::size_t i) const {
    return planes == 3 ? grey_of(image[i], image[size + i], image[2 * size + i]) : image[i];
  }
};

float between(float from, float to, float share) {
  return std::clamp(from + share * (to - from), 0.0f, 1.0f);
}

void brighten(const Picture& picture, float factor) {
  for (std::size_t i = 0; i < picture.planes * picture.size; ++i)
    picture.image[i] = std::clamp(picture.image[i] * factor, 0.0f, 1.0f);
}

// Away from the mean of all, or towards it.
void change_contrast(const Picture& picture, float factor) {
  double sum = 0;
  for (std::size_t i = 0; i < picture.size; ++i) sum += static_cast<double>(picture.grey(i));
  const auto mean = static_cast<float>(sum / static_cast<double>(picture.size));
  for (std::size_t i = 0; i < picture.planes * picture.size; ++i)
    picture.image[i] = between(mean, picture.image[i], factor);
}

// Away from grey, or towards it.
void saturate(const Picture& picture, float factor) {
  for (std::size_t i = 0; i < picture.size; ++i) {
    const float grey = picture.grey(i);
    for (std::size_t c = 0; c < 3; ++c) {
      float& value = picture.image[c * picture.size + i];
      value = between(grey, value, factor);
    }
  }
}

// Hue from 0 to 6 with red at 0, green at 2, blue at 4; of the largest and smallest value, only the
// ones between move.
void turn_pixel(float& red, float& green, float& blue, float turn) {
  const float most = std::max({red, green, blue}), least = std::min({red, green, blue});
  const float range = most - least;
  if (range <= 0) return;
  float hue = most == red     ? (green - blue) / range
              : most == green ? 2 + (blue - red) / range
                              : 4 + (red - green) / range;
  hue += 6 * turn;
  hue -= 6 * std::floor(hue / 6);
  const auto channel = [&](float centre) {
    const float away = std::abs(std::remainder(hue - centre, 6.0f));
    return least + range * std::clamp(2 - away, 0.0f, 1.0f);
  };
  red = channel(0);
  green = channel(2);
  blue = channel(4);
}

void turn_hue(const Picture& picture, float turn) {
  for (std::size_t i = 0; i < picture.size; ++i)
    turn_pixel(picture.image[i], picture.image[picture.size + i],
               picture.image[2 * picture.size + i], turn);
}

}  // namespace

ColourChange draw_colours(const JitterOptions& options, Random& random) {
  ColourChange change;
  const std::array<double, 4> most{options.brightness, options.contrast, options.saturation,
                                   options.hue};
  for (std::size_t i = 0; i < most.size(); ++i) {
    const float middle = i == ColourChange::hue ? 0.0f : 1.0f;
    const float low = i == ColourChange::hue ? -static_cast<float>(most[i])
                                             : std::max(0.0f, middle - static_cast<float>(most[i]));
    const float high = middle + static_cast<float>(most[i]);
    const float drawn = random.uniform();
    change.amount[i] = most[i] > 0 ? low + (high - low) * drawn : middle;
  }
  for (std::size_t i = 3; i > 0; --i) std::swap(change.order[i], change.order[random.below(i + 1)]);
  return change;
}

void change_colours(const ColourChange& change, float* image, std::size_t planes,
                    std::size_t plane_size) {
  const Picture picture{image, planes, plane_size};
  for (const auto step : change.order) {
    const float amount = change.amount[step];
    if (amount == (step == ColourChange::hue ? 0.0f : 1.0f)) continue;
    if (step == ColourChange::brightness) brighten(picture, amount);
    if (step == ColourChange::contrast) change_contrast(picture, amount);
    if (planes == 3 && step == ColourChange::saturation) saturate(picture, amount);
    if (planes == 3 && step == ColourChange::hue) turn_hue(picture, amount);
  }
}

}  // namespace asup::data
