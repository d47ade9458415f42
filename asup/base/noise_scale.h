// How noisy gradients are: the simple noise scale of McCandlish et al. 2018, "An Empirical Model of
// Large-Batch Training", B = tr(S) / |G|^2, where G is the true gradient and S the covariance of a
// single sample's. Steps by batches much smaller than B mostly average noise away; beyond B, more
// samples hardly make a step better.
//
// Of the mean gradient of n samples, E|g|^2 = |G|^2 + tr(S) / n. Two batches of different sizes at
// one model therefore tell both terms without bias (appendix A.1 there):
//
//     tr(S) = (|g_small|^2 - |g_large|^2) / (1 / small - 1 / large)
//     |G|^2 = (large |g_large|^2 - small |g_small|^2) / (large - small)
//
// and it does not matter that the large batch holds the small one. Of one step both are rough, so
// they are averaged over steps, each by itself: a mean of ratios would be biased. One thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>

namespace asup {

class NoiseScale {
 public:
  // Averages over about this many of the last estimates; over all while there are fewer.
  explicit NoiseScale(double window = 50) : window_(window) {}

  // The squared norms of the mean gradients of two batches. Of several small batches, or of one
  // with parts of unequal weight, a size is the harmonic mean: that by which noise is divided.
  // What is no estimate is left out: sizes that do not differ, norms that are not finite.
  void add(double small_samples, double small_norm2, double large_samples, double large_norm2);

  std::uint64_t estimates() const { return estimates_; }
  // As averaged; either may be below zero by chance.
  double variance() const { return variance_; }                  // tr(S), of one sample
  double squared_gradient() const { return squared_gradient_; }  // |G|^2

  // In samples. Nothing where there is no estimate, or where the gradient is too small for the
  // noise around it to be told from none.
  std::optional<double> noise_scale() const;

 private:
  double window_;
  std::uint64_t estimates_ = 0;
  double variance_ = 0, squared_gradient_ = 0;
};

// Gradients of so many bytes are looked at in one step of so many, which makes some 2 MiB a step:
// little beside computing them.
std::uint64_t steps_between_looks(std::uint64_t bytes);

}  // namespace asup
