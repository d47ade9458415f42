#include "asup/data/augment.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/data/random.h"

namespace asup::data {
namespace {

struct Change {
  std::int64_t down = 0, right = 0;
  bool mirror = false;
};

// Beyond the edge the nearest pixel is repeated: right for dark borders and for photographs alike.
void apply(const Change& change, const float* in, float* out, std::int64_t height,
           std::int64_t width) {
  for (std::int64_t y = 0; y < height; ++y) {
    const float* row = in + std::clamp<std::int64_t>(y - change.down, 0, height - 1) * width;
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from = std::clamp<std::int64_t>(x - change.right, 0, width - 1);
      *out++ = row[change.mirror ? width - 1 - from : from];
    }
  }
}

class Augmented : public Dataset {
 public:
  Augmented(std::unique_ptr<Dataset> dataset, const AugmentOptions& options, std::uint64_t seed)
      : dataset_(std::move(dataset)), options_(options), seed_(seed) {}

  std::size_t size() const override { return dataset_->size(); }
  std::vector<std::int64_t> input_shape() const override { return dataset_->input_shape(); }
  int classes() const override { return dataset_->classes(); }
  std::string name() const override { return dataset_->name(); }
  Normalisation normalisation() const override { return dataset_->normalisation(); }

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    Batch batch = dataset_->get(indices, epoch);
    const torch::Tensor before = batch.input.contiguous();
    batch.input = torch::empty_like(before);
    const auto channels = before.size(1), height = before.size(2), width = before.size(3);
    const float* in = before.const_data_ptr<float>();
    float* out = batch.input.mutable_data_ptr<float>();
    for (const std::int64_t index : indices) {
      const Change change = change_of(epoch, index);
      for (std::int64_t c = 0; c < channels; ++c, in += height * width, out += height * width)
        apply(change, in, out, height, width);
    }
    return batch;
  }

  Change change_of(std::uint64_t epoch, std::int64_t index) const {
    Random random(seed_, epoch, static_cast<std::uint64_t>(index));
    const auto spread = 2 * static_cast<std::uint64_t>(options_.shift) + 1;
    Change change;
    change.down = static_cast<std::int64_t>(random.below(spread)) - options_.shift;
    change.right = static_cast<std::int64_t>(random.below(spread)) - options_.shift;
    change.mirror = options_.flip && random.below(2) == 1;
    return change;
  }

  const std::unique_ptr<Dataset> dataset_;
  const AugmentOptions options_;
  const std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<Dataset> make_augmented(std::unique_ptr<Dataset> dataset,
                                        const AugmentOptions& options, std::uint64_t seed) {
  const auto shape = dataset->input_shape();
  require(shape.size() == 3,
          "samples of {} have {} dimensions: no images, which can be shifted or "
          "mirrored. Leave augment-shift and augment-flip out",
          dataset->name(), shape.size());
  require(options.shift >= 0 && options.shift < std::min(shape[1], shape[2]),
          "images of {} x {} pixels cannot be shifted by up to {}", shape[1], shape[2],
          options.shift);
  return std::make_unique<Augmented>(std::move(dataset), options, seed);
}

}  // namespace asup::data
