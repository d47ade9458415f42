#include "asup/sync/gradients/gradient_noise.h"

#include <cmath>

#include "asup/kernels/update.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

double sum_of_squares(const Buffer& buffer) {
  if (buffer.dtype == Dtype::f32)
    return kernels::sum_of_squares(static_cast<const float*>(buffer.data), buffer.count);
  return torch::from_blob(buffer.data, {static_cast<std::int64_t>(buffer.count)},
                          scalar_type_of(buffer.dtype))
      .to(torch::kDouble)
      .square()
      .sum()
      .item<double>();
}

double GradientNoise::leaves(const Buffer& buffer) {
  const double squares = sum_of_squares(buffer);
  squares_ += squares;
  buffers_.push_back(buffer);
  return std::sqrt(squares);
}

// Rank i sends n_i / n times the mean of its n_i samples, n being the mean of all n_i, which is not
// known yet.
GradientNoise::Notes GradientNoise::notes(std::uint64_t samples, bool weighed) const {
  if (samples == 0) return {};
  const auto own = static_cast<double>(samples);
  return {1, own, 1 / own, weighed ? squares_ / (own * own) : squares_};
}

void GradientNoise::compare(const Notes& notes, bool weighed) {
  if (notes.told <= 0) return;
  const double factor = weighed ? notes.samples * notes.samples : 1;
  double squares = 0;
  for (const Buffer& buffer : buffers_) squares += sum_of_squares(buffer);
  pending_ = {notes.told / notes.inverse_samples, factor * notes.squares / notes.told,
              ranks_ * notes.samples, squares};
}

void GradientNoise::end_step(bool one_round) {
  if (pending_ && one_round)
    estimator_.add(pending_->small_samples, pending_->small_squares, pending_->large_samples,
                   pending_->large_squares);
  pending_.reset();
}

}  // namespace asup::sync
