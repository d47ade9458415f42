// Random changes of images: shifts, mirror images, colours, squares cut out. Constant after
// construction.
#pragma once

#include <memory>

#include "asup/data/dataset.h"
#include "asup/data/random.h"

namespace asup::data {

struct Shift {
  int down = 0, right = 0;
  bool mirror = false;
};

// The first that is drawn for a sample.
Shift draw_shift(const AugmentOptions& options, Random& random);

// Colours and cutouts of one image, in place. Draws them for a sample, after what was drawn before.
class ImageChanger {
 public:
  // Throws BadInput for changes that images of such a shape do not allow. `shape`: C, H, W; empty
  // `normalisation`: not known, so that colours cannot be changed.
  ImageChanger(const AugmentOptions& options, const std::vector<std::int64_t>& shape,
               const Normalisation& normalisation, const std::string& name);

  void change(float* image, Random& random) const;

 private:
  void change_colours_of(float* image, Random& random) const;
  void cut_out(float* image, Random& random) const;

  const AugmentOptions options_;
  const std::int64_t channels_, height_, width_;
  std::vector<float> mean_, deviation_;  // by channel
};

// The changes in `options` that any data set of images allows, which is all but crop and mixup.
// What becomes of a sample depends on (seed, epoch, index) alone, not on the rank or batch it is
// in. Throws BadInput for a shift that is negative or as large as the image, and as ImageChanger
// does.
std::unique_ptr<Dataset> make_augmented(std::unique_ptr<Dataset> dataset,
                                        const AugmentOptions& options, std::uint64_t seed);

// Throws BadInput. For images of this size.
void check_shift(int shift, std::int64_t height, std::int64_t width);

}  // namespace asup::data
