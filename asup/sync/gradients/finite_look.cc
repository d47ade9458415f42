#include "asup/sync/gradients/finite_look.h"

#include <algorithm>
#include <cmath>

#include "asup/kernels/finite.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {
namespace {

// Of sums that overflow in no order of adding up.
double most_of(Dtype dtype) {
  const double most =
      dtype == Dtype::f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return most / 2;  // they are rounded, to bf16 too
}

}  // namespace

double largest_magnitude(const Buffer& buffer) {
  if (buffer.count == 0) return 0;
  if (buffer.dtype == Dtype::f32)
    return kernels::largest_magnitude(static_cast<const float*>(buffer.data), buffer.count);
  return torch::linalg_vector_norm(
             torch::from_blob(buffer.data, {static_cast<std::int64_t>(buffer.count)},
                              scalar_type_of(buffer.dtype)),
             std::numeric_limits<double>::infinity())
      .item<double>();
}

void FiniteLook::begin() {
  finite_ = true;
  narrow_.clear();
}

void FiniteLook::leaves(const Buffer& gradients, double factor, double bound, bool as_f16) {
  if (!looks_) return;
  if (gradients.dtype == Dtype::f16 || as_f16) return narrow_.push_back(gradients);
  const double most = most_of(gradients.dtype) / (ranks_ * std::max(factor, 1.0));
  finite_ = finite_ && (bound <= most || largest_magnitude(gradients) <= most);
}

void FiniteLook::ends(double note) {
  if (!looks_) return;
  finite_ = note == 0 && std::all_of(narrow_.begin(), narrow_.end(), [](const Buffer& averages) {
              return std::isfinite(largest_magnitude(averages));
            });
}

}  // namespace asup::sync
