#include "asup/base/noise_scale.h"

#include <algorithm>
#include <cmath>

namespace asup {

void NoiseScale::add(double small_samples, double small_norm2, double large_samples,
                     double large_norm2) {
  if (!(small_samples > 0 && large_samples > small_samples && std::isfinite(large_samples))) return;
  if (!std::isfinite(small_norm2) || !std::isfinite(large_norm2)) return;
  const double variance = (small_norm2 - large_norm2) / (1 / small_samples - 1 / large_samples);
  const double squared_gradient =
      (large_samples * large_norm2 - small_samples * small_norm2) / (large_samples - small_samples);
  ++estimates_;
  const double weight = std::max(1 / static_cast<double>(estimates_), 1 / window_);
  variance_ += weight * (variance - variance_);
  squared_gradient_ += weight * (squared_gradient - squared_gradient_);
}

std::optional<double> NoiseScale::noise_scale() const {
  if (estimates_ == 0 || squared_gradient_ <= 0) return std::nullopt;
  return std::max(variance_, 0.0) / squared_gradient_;
}

std::uint64_t steps_between_looks(std::uint64_t bytes) {
  constexpr std::uint64_t kBytes = 2u << 20;
  return std::max<std::uint64_t>(1, bytes / kBytes);
}

}  // namespace asup
