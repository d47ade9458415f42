#include "asup/train/image_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace asup::train {
namespace {

constexpr std::string_view kAutomatic = "auto", kNothing = "none", kImageNet = "imagenet";

// Of ImageNet's training images; what the field's weights were trained with.
const PixelNormalisation kOfImageNet{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

// "0.1,0.2"; nothing where it is anything else.
std::optional<std::vector<double>> numbers_in(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return numbers;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

}  // namespace

std::optional<ColourJitter> ColourJitter::from_text(std::string_view text) {
  if (text == kNothing) return ColourJitter{};
  const auto numbers = numbers_in(text);
  ColourJitter jitter;
  if (!numbers || numbers->size() != jitter.most.size()) return std::nullopt;
  std::copy(numbers->begin(), numbers->end(), jitter.most.begin());
  for (const double most : jitter.most)
    if (most < 0 || most > 10) return std::nullopt;
  return jitter.most.back() <= 0.5 ? std::optional(jitter) : std::nullopt;
}

std::string ColourJitter::to_text() const {
  if (*this == ColourJitter{}) return std::string(kNothing);
  return fmt::format("{}", fmt::join(most, ","));
}

std::optional<PixelNormalisation> PixelNormalisation::from_text(std::string_view text) {
  if (text == kAutomatic) return PixelNormalisation{};
  if (text == kImageNet) return kOfImageNet;
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto mean = numbers_in(text.substr(0, colon)),
             deviation = numbers_in(text.substr(colon + 1));
  if (!mean || !deviation || mean->size() != deviation->size()) return std::nullopt;
  for (const double each : *deviation)
    if (each <= 0) return std::nullopt;
  return PixelNormalisation{*mean, *deviation};
}

std::string PixelNormalisation::to_text() const {
  if (mean.empty()) return std::string(kAutomatic);
  if (*this == kOfImageNet) return std::string(kImageNet);
  return fmt::format("{}:{}", fmt::join(mean, ","), fmt::join(deviation, ","));
}

}  // namespace asup::train
