#include "asup/data/images.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace asup::data {

// By counting the values, so that the sums are exact and of any order.
Normalisation measure_normalisation(const Images& images) {
  Normalisation result;
  const std::size_t plane = static_cast<std::size_t>(images.height * images.width);
  for (std::int64_t channel = 0; channel < images.channels; ++channel) {
    std::array<std::uint64_t, 256> histogram{};
    for (std::size_t i = 0; i < images.count(); ++i) {
      const std::uint8_t* begin = images.pixels.data() + i * images.image_size() +
                                  static_cast<std::size_t>(channel) * plane;
      for (std::size_t k = 0; k < plane; ++k) ++histogram[begin[k]];
    }
    const double total = static_cast<double>(images.count() * plane);
    double sum = 0, squares = 0;
    for (std::size_t value = 0; value < 256; ++value) {
      const double x = static_cast<double>(value) / 255, n = static_cast<double>(histogram[value]);
      sum += n * x;
      squares += n * x * x;
    }
    const double mean = sum / total;
    result.mean.push_back(mean);
    // Images of one colour have no deviation to divide by.
    result.deviation.push_back(
        std::max(std::sqrt(std::max(squares / total - mean * mean, 0.0)), 1e-3));
  }
  return result;
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& file) {
  for (const auto& candidate : {folder / file, folder / (file + ".gz")})
    if (std::filesystem::exists(candidate)) return candidate;
  return {};
}

}  // namespace asup::data
