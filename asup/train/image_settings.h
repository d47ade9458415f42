// Settings of image data that are texts of numbers. Values only; safe from any thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace asup::train {

// How far colours of training images are changed at random.
struct ColourJitter {
  std::array<double, 4> most{};  // brightness, contrast, saturation, hue

  static constexpr std::string_view kForm = "B,C,S,H|none";
  static constexpr std::string_view kWanted =
      "'none' or how far brightness, contrast, saturation (each 0 … 10) and hue (0 … 0.5) may "
      "change, like 0.4,0.4,0.4,0.1";
  static std::optional<ColourJitter> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const ColourJitter&) const = default;
};

// What pixels, on the scale 0 … 1, are taken by: (pixel - mean) / deviation, by channel.
struct PixelNormalisation {
  std::vector<double> mean, deviation;  // empty: the data set's own

  static constexpr std::string_view kForm = "VALUES|imagenet|auto";
  static constexpr std::string_view kWanted =
      "'auto', 'imagenet', or a mean and, above 0, a deviation for each channel, like "
      "0.5,0.5,0.5:0.25,0.25,0.25";
  static std::optional<PixelNormalisation> from_text(std::string_view text);
  std::string to_text() const;
  bool operator==(const PixelNormalisation&) const = default;
};

}  // namespace asup::train
