#include "asup/data/image_dataset.h"

#include <array>

namespace asup::data {
namespace {

// Bytes become floats only as a batch is made, a quarter of the memory; there are 256 of them, so a
// table normalises.
class ImageDataset : public Dataset {
 public:
  ImageDataset(std::string name, Images images, const Normalisation& normalisation)
      : name_(std::move(name)), images_(std::move(images)), normalisation_(normalisation) {
    for (std::size_t c = 0; c < normalisation.mean.size(); ++c) {
      auto& table = tables_.emplace_back();
      for (std::size_t value = 0; value < table.size(); ++value)
        table[value] =
            static_cast<float>((static_cast<double>(value) / 255 - normalisation.mean[c]) /
                               normalisation.deviation[c]);
    }
  }

  std::size_t size() const override { return images_.count(); }
  std::vector<std::int64_t> input_shape() const override {
    return {images_.channels, images_.height, images_.width};
  }
  int classes() const override { return images_.classes; }
  std::string name() const override { return name_; }
  Normalisation normalisation() const override { return normalisation_; }
  std::vector<std::int64_t> labels() const override {
    return {images_.labels.begin(), images_.labels.end()};
  }

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch{blank({count, images_.channels, images_.height, images_.width}),
                blank({count}, torch::kInt64)};
    float* out = batch.input.mutable_data_ptr<float>();
    auto* labels = batch.target.mutable_data_ptr<std::int64_t>();
    for (const std::int64_t index : indices) {
      out = normalise(static_cast<std::size_t>(index), out);
      *labels++ = images_.labels[static_cast<std::size_t>(index)];
    }
    return batch;
  }

  // Returns the end of what it wrote.
  float* normalise(std::size_t index, float* out) const {
    const std::uint8_t* in = images_.pixels.data() + index * images_.image_size();
    const auto plane = images_.height * images_.width;
    for (const auto& table : tables_)
      for (std::int64_t k = 0; k < plane; ++k) *out++ = table[*in++];
    return out;
  }

  const std::string name_;
  const Images images_;
  const Normalisation normalisation_;
  std::vector<std::array<float, 256>> tables_;  // by channel
};

}  // namespace

std::unique_ptr<Dataset> make_image_dataset(std::string name, Images images,
                                            const Normalisation& normalisation) {
  return std::make_unique<ImageDataset>(std::move(name), std::move(images), normalisation);
}

}  // namespace asup::data
