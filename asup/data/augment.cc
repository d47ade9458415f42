#include "asup/data/augment.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/data/colours.h"
#include "asup/data/wrapped_dataset.h"

namespace asup::data {
namespace {

// One plane of an image. Beyond the edge the nearest pixel is repeated, unless it is `beyond`.
void apply(const Shift& shift, const float* in, float* out, std::int64_t height, std::int64_t width,
           const float* beyond) {
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t above = std::clamp<std::int64_t>(y - shift.down, 0, height - 1);
    const float* row = in + above * width;
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from = std::clamp<std::int64_t>(x - shift.right, 0, width - 1);
      const bool outside = from != x - shift.right || above != y - shift.down;
      *out++ = outside && beyond ? *beyond : row[shift.mirror ? width - 1 - from : from];
    }
  }
}

class Augmented : public WrappedDataset {
 public:
  Augmented(std::unique_ptr<Dataset> dataset, const AugmentOptions& options, std::uint64_t seed)
      : WrappedDataset(std::move(dataset)),
        options_(options),
        seed_(seed),
        changer_(options, dataset_->input_shape(), dataset_->normalisation(), dataset_->name()) {
    const Normalisation levels = dataset_->normalisation();
    black_.assign(static_cast<std::size_t>(dataset_->input_shape()[0]), 0.0f);
    for (std::size_t c = 0; c < levels.mean.size(); ++c)
      black_[c] = static_cast<float>(-levels.mean[c] / levels.deviation[c]);
  }

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    Batch batch = dataset_->get(indices, epoch);
    const torch::Tensor before = batch.input.contiguous();
    batch.input = blank(before.sizes());
    const auto height = before.size(2), width = before.size(3);
    const float* in = before.const_data_ptr<float>();
    float* out = batch.input.mutable_data_ptr<float>();
    for (const std::int64_t index : indices) {
      Random random(seed_, epoch, static_cast<std::uint64_t>(index));
      const Shift shift = draw_shift(options_, random);
      float* const image = out;
      for (const float& black : black_) {
        apply(shift, in, out, height, width, options_.black ? &black : nullptr);
        in += height * width;
        out += height * width;
      }
      changer_.change(image, random);
    }
    return batch;
  }

  const AugmentOptions options_;
  const std::uint64_t seed_;
  const ImageChanger changer_;
  std::vector<float> black_;  // by channel
};

}  // namespace

Shift draw_shift(const AugmentOptions& options, Random& random) {
  const auto spread = 2 * static_cast<std::uint64_t>(options.shift) + 1;
  Shift shift;
  shift.down = static_cast<int>(random.below(spread)) - options.shift;
  shift.right = static_cast<int>(random.below(spread)) - options.shift;
  shift.mirror = options.flip && random.below(2) == 1;
  return shift;
}

ImageChanger::ImageChanger(const AugmentOptions& options, const std::vector<std::int64_t>& shape,
                           const Normalisation& normalisation, const std::string& name)
    : options_(options),
      channels_(shape[0]),
      height_(shape[1]),
      width_(shape[2]),
      mean_(normalisation.mean.begin(), normalisation.mean.end()),
      deviation_(normalisation.deviation.begin(), normalisation.deviation.end()) {
  require(!options.jitter.any() || (!mean_.empty() && (channels_ == 1 || channels_ == 3)),
          "samples of {} are no pictures in known colours, which could be changed. Leave "
          "augment-jitter out",
          name);
  require(options.cutout <= std::max(height_, width_),
          "images of {} x {} pixels leave nothing when {} x {} are cut out. Lower augment-cutout",
          height_, width_, options.cutout, options.cutout);
}

void ImageChanger::change(float* image, Random& random) const {
  if (options_.jitter.any()) change_colours_of(image, random);
  if (options_.cutout > 0) cut_out(image, random);
}

// On the scale 0 … 1, and back.
void ImageChanger::change_colours_of(float* image, Random& random) const {
  const auto plane = static_cast<std::size_t>(height_ * width_);
  const auto each = [&](const auto& action) {
    for (std::size_t c = 0; c < mean_.size(); ++c)
      for (float* at = image + c * plane; at < image + (c + 1) * plane; ++at)
        *at = action(*at, mean_[c], deviation_[c]);
  };
  each([](float value, float mean, float deviation) {
    return std::clamp(value * deviation + mean, 0.0f, 1.0f);
  });
  change_colours(draw_colours(options_.jitter, random), image, mean_.size(), plane);
  each([](float value, float mean, float deviation) { return (value - mean) / deviation; });
}

// A square about any pixel, cut off at the edges: "Improved regularization of convolutional neural
// networks with cutout", DeVries and Taylor, 2017, https://arxiv.org/abs/1708.04552. Becomes the
// mean, which is 0.
void ImageChanger::cut_out(float* image, Random& random) const {
  const auto draw = [&](std::int64_t size) {
    const auto centre = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size)));
    const std::int64_t from = centre - options_.cutout / 2;
    return std::pair(std::clamp<std::int64_t>(from, 0, size),
                     std::clamp<std::int64_t>(from + options_.cutout, 0, size));
  };
  const auto [top, bottom] = draw(height_);
  const auto [left, right] = draw(width_);
  for (std::int64_t c = 0; c < channels_; ++c)
    for (std::int64_t y = top; y < bottom; ++y) {
      float* const row = image + (c * height_ + y) * width_;
      std::fill(row + left, row + right, 0.0f);
    }
}

void check_shift(int shift, std::int64_t height, std::int64_t width) {
  require(shift >= 0 && shift < std::min(height, width),
          "images of {} x {} pixels cannot be shifted by up to {}", height, width, shift);
}

std::unique_ptr<Dataset> make_augmented(std::unique_ptr<Dataset> dataset,
                                        const AugmentOptions& options, std::uint64_t seed) {
  const auto shape = dataset->input_shape();
  require(shape.size() == 3,
          "samples of {} have {} dimensions: no images, which can be shifted or "
          "mirrored. Leave augment-shift and augment-flip out",
          dataset->name(), shape.size());
  require(options.crop == 0,
          "{} is no data set of image files, whose pictures can be cropped and resized. Leave "
          "augment-crop out; augment-shift moves images of any kind",
          dataset->name());
  check_shift(options.shift, shape[1], shape[2]);
  return std::make_unique<Augmented>(std::move(dataset), options, seed);
}

}  // namespace asup::data
