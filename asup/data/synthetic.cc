#include "asup/data/synthetic.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/data/random.h"

namespace asup::data {
namespace {

constexpr std::size_t kGrid = 5;
constexpr float kRoot3 = 1.7320508f;  // an even spread over (-√3, √3) has deviation 1

// Streams of one seed.
constexpr std::uint64_t kPatterns = 0, kTrainNoise = 1, kTestNoise = 2;

// About normal, with deviation 1: the sum of four even spreads. No library function, whose last bit
// may differ between platforms.
float noise_of(Random& random) {
  const std::uint64_t bits = random.next();
  const auto sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<float>(sum) * 0x1p-16f - 2) * kRoot3;
}

// One channel: random values on a coarse grid, interpolated between its points.
std::vector<float> make_pattern(Random random, std::size_t height, std::size_t width) {
  float grid[kGrid][kGrid];
  for (auto& row : grid)
    for (float& value : row) value = (2 * random.uniform() - 1) * kRoot3;
  const auto place = [](std::size_t i, std::size_t size) {
    return size > 1 ? static_cast<float>(i * (kGrid - 1)) / static_cast<float>(size - 1) : 0.0f;
  };
  std::vector<float> pattern;
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      const float v = place(y, height), u = place(x, width);
      const std::size_t i = std::min<std::size_t>(static_cast<std::size_t>(v), kGrid - 2);
      const std::size_t j = std::min<std::size_t>(static_cast<std::size_t>(u), kGrid - 2);
      const float b = v - static_cast<float>(i), a = u - static_cast<float>(j);
      pattern.push_back((1 - b) * ((1 - a) * grid[i][j] + a * grid[i][j + 1]) +
                        b * ((1 - a) * grid[i + 1][j] + a * grid[i + 1][j + 1]));
    }
  return pattern;
}

class Synthetic : public Dataset {
 public:
  Synthetic(const SyntheticOptions& options, std::uint64_t seed, Split split)
      : options_(options), seed_(seed), split_(split) {
    for (int label = 0; label < options.classes; ++label) {
      auto& image = patterns_.emplace_back();
      for (std::int64_t c = 0; c < options.shape[0]; ++c) {
        const auto channel = make_pattern(Random(seed, kPatterns, static_cast<std::uint64_t>(label),
                                                 static_cast<std::uint64_t>(c)),
                                          static_cast<std::size_t>(options.shape[1]),
                                          static_cast<std::size_t>(options.shape[2]));
        image.insert(image.end(), channel.begin(), channel.end());
      }
    }
  }

  std::size_t size() const override {
    return static_cast<std::size_t>(split_ == Split::train ? options_.train_size
                                                           : options_.test_size);
  }
  std::vector<std::int64_t> input_shape() const override { return options_.shape; }
  int classes() const override { return options_.classes; }
  std::string name() const override { return "synthetic"; }
  std::vector<std::int64_t> labels() const override {
    std::vector<std::int64_t> labels(size());
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = label_of(static_cast<std::int64_t>(i));
    return labels;
  }

 private:
  std::int64_t label_of(std::int64_t index) const { return index % options_.classes; }

  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    Batch batch{blank({count, options_.shape[0], options_.shape[1], options_.shape[2]}),
                blank({count}, torch::kInt64)};
    float* out = batch.input.mutable_data_ptr<float>();
    auto* labels = batch.target.mutable_data_ptr<std::int64_t>();
    const auto noise = static_cast<float>(options_.noise);
    for (const std::int64_t index : indices) {
      const std::int64_t label = label_of(index);
      Random random(seed_, split_ == Split::train ? kTrainNoise : kTestNoise,
                    static_cast<std::uint64_t>(index));
      const auto& pattern = patterns_[static_cast<std::size_t>(label)];
      if (noise == 0)  // as fast as memory, for measurements
        out = std::copy(pattern.begin(), pattern.end(), out);
      else
        for (const float value : pattern) *out++ = value + noise * noise_of(random);
      *labels++ = label;
    }
    return batch;
  }

  const SyntheticOptions options_;
  const std::uint64_t seed_;
  const Split split_;
  std::vector<std::vector<float>> patterns_;  // by class, each C x H x W
};

}  // namespace

std::unique_ptr<Dataset> make_synthetic(const SyntheticOptions& options, std::uint64_t seed,
                                        Split split) {
  const auto& shape = options.shape;
  require(shape.size() == 3 && std::all_of(shape.begin(), shape.end(),
                                           [](std::int64_t n) { return n >= 1 && n <= 1 << 15; }),
          "synthetic images need a shape of channels, height and width, each at least 1, not [{}]",
          fmt::join(shape, ", "));
  require(options.train_size >= 1 && options.test_size >= 1,
          "synthetic data needs at least 1 sample, not {} for training and {} for testing",
          options.train_size, options.test_size);
  require(options.classes >= 1, "synthetic data needs at least 1 class, not {}", options.classes);
  require(options.noise >= 0, "the noise of synthetic data cannot be {}", options.noise);
  return std::make_unique<Synthetic>(options, seed, split);
}

}  // namespace asup::data
