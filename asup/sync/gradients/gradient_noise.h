// Estimates the noise scale (base/noise_scale.h) beside an exchange of gradients: what each rank
// sends is a small batch's gradient, and their average a large one's. The ranks' squared norms
// travel as notes in the last bucket, so that all ranks know all of them. Only some steps are
// looked at. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/base/buffer.h"
#include "asup/base/noise_scale.h"

namespace asup::sync {

// The sum of squares of all elements.
double sum_of_squares(const Buffer& buffer);

class GradientNoise {
 public:
  // `bytes` of all gradients.
  GradientNoise(std::uint64_t bytes, int ranks)
      : every_(steps_between_looks(bytes)), ranks_(ranks) {}

  // A round of this step begins. The same on all ranks.
  void begin(std::uint64_t step) {
    looks_ = ranks_ > 1 && step % every_ == 0;
    buffers_.clear();
    squares_ = 0;
    pending_.reset();
  }
  bool looks() const { return looks_; }

  // This rank's own gradients leave. Returns their norm.
  double leaves(const Buffer& buffer);

  // What ranks tell each other; comes back as the average.
  struct Notes {
    double told = 0;  // 1 where a rank has samples
    double samples = 0, inverse_samples = 0, squares = 0;
  };
  // `weighed`: what left is weighed by samples already, so that its average is the mean over all.
  Notes notes(std::uint64_t samples, bool weighed) const;

  // The averages are there: of the gradients where leaves() was told, and of the notes.
  void compare(const Notes& notes, bool weighed);

  // Ranks were lost: this step tells nothing.
  void go_on_with(int ranks) {
    if (ranks_ > 1) ranks_ = ranks;
    looks_ = false;
    buffers_.clear();
    pending_.reset();
  }

  // The step was of this round alone, or was not: then it tells nothing.
  void end_step(bool one_round);

  std::optional<double> noise_scale() const { return estimator_.noise_scale(); }

 private:
  struct Pair {
    double small_samples, small_squares, large_samples, large_squares;
  };

  const std::uint64_t every_;
  int ranks_;
  bool looks_ = false;
  std::vector<Buffer> buffers_;
  double squares_ = 0;
  std::optional<Pair> pending_;
  NoiseScale estimator_;
};

}  // namespace asup::sync
