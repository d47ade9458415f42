#include "asup/data/mixup.h"

#include <cmath>

#include "asup/data/random.h"
#include "asup/data/wrapped_dataset.h"

namespace asup::data {
namespace {

constexpr std::uint64_t kStream = 0x6d69787570;  // "mixup": apart from the sample's other changes

// Above 0, below 1.
double open_uniform(Random& random) {
  return (static_cast<double>(random.next() >> 12) + 0.5) * 0x1p-52;
}

// Standard normal; Box and Muller, 1958.
double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(open_uniform(random)));
  return radius * std::cos(2 * 3.14159265358979323846 * open_uniform(random));
}

// The logarithm of a draw from Gamma(shape): Marsaglia and Tsang, "A simple method for generating
// gamma variables", ACM TOMS 26 (2000), https://doi.org/10.1145/358407.358414. By logarithms, since
// draws of a small shape would be 0.
double log_gamma_draw(double shape, Random& random) {
  if (shape < 1) return log_gamma_draw(shape + 1, random) + std::log(open_uniform(random)) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(random), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(open_uniform(random)) < 0.5 * x * x + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

class Mixed : public WrappedDataset {
 public:
  Mixed(std::unique_ptr<Dataset> dataset, double strength, std::uint64_t seed)
      : WrappedDataset(std::move(dataset)), strength_(strength), seed_(seed) {}

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    std::vector<std::int64_t> both(indices.begin(), indices.end());
    torch::Tensor shares = torch::empty({count});
    for (std::int64_t i = 0; i < count; ++i) {
      Random random(seed_ ^ kStream, epoch,
                    static_cast<std::uint64_t>(both[static_cast<std::size_t>(i)]));
      both.push_back(static_cast<std::int64_t>(random.below(size())));
      shares[i] = draw_share(strength_, random);
    }
    const Batch batch = dataset_->get(both, epoch);
    const auto mix = [&](const torch::Tensor& all) {
      std::vector<std::int64_t> sizes(static_cast<std::size_t>(all.dim()), 1);
      sizes[0] = count;
      const torch::Tensor share = shares.view(sizes);
      return all.narrow(0, 0, count) * share + all.narrow(0, count, count) * (1 - share);
    };
    const auto by_class = torch::one_hot(batch.target, classes()).to(torch::kFloat32);
    return {mix(batch.input), mix(by_class)};
  }

  const double strength_;
  const std::uint64_t seed_;
};

}  // namespace

// Rounded, since the last bits of logarithms differ from one libm to another.
float draw_share(double strength, Random& random) {
  const double a = log_gamma_draw(strength, random), b = log_gamma_draw(strength, random);
  const double share = 1 / (1 + std::exp(b - a));
  return static_cast<float>(std::round(share * 4096) / 4096);
}

std::unique_ptr<Dataset> make_mixed(std::unique_ptr<Dataset> dataset, double strength,
                                    std::uint64_t seed) {
  return std::make_unique<Mixed>(std::move(dataset), strength, seed);
}

}  // namespace asup::data
