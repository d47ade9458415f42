#include "asup/data/subset.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "asup/data/random.h"
#include "asup/data/wrapped_dataset.h"

namespace asup::data {
namespace {

constexpr std::uint64_t kStream = 0x617369646500;  // "aside": apart from what else the seed chooses

class Subset : public WrappedDataset {
 public:
  Subset(std::unique_ptr<Dataset> dataset, std::vector<std::int64_t> indices)
      : WrappedDataset(std::move(dataset)), indices_(std::move(indices)) {}

  std::size_t size() const override { return indices_.size(); }
  std::vector<std::int64_t> labels() const override {
    const std::vector<std::int64_t> all = dataset_->labels();
    std::vector<std::int64_t> labels;
    if (all.empty()) return labels;
    for (const std::int64_t index : indices_)
      labels.push_back(all[static_cast<std::size_t>(index)]);
    return labels;
  }

 private:
  Batch assemble(std::span<const std::int64_t> indices, std::uint64_t epoch) const override {
    std::vector<std::int64_t> there;
    for (const std::int64_t index : indices)
      there.push_back(indices_[static_cast<std::size_t>(index)]);
    return dataset_->get(there, epoch);
  }

  const std::vector<std::int64_t> indices_;
};

}  // namespace

// The first ones of a shuffled order (Fisher and Yates).
TwoParts set_aside(std::size_t size, double share, std::uint64_t seed) {
  const auto wanted = static_cast<std::size_t>(std::llround(share * static_cast<double>(size)));
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, size - 1);
  std::vector<std::int64_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, kStream);
  for (std::size_t i = 0; i < count; ++i) std::swap(order[i], order[i + random.below(size - i)]);
  const auto border = order.begin() + static_cast<std::ptrdiff_t>(count);
  TwoParts parts{{border, order.end()}, {order.begin(), border}};
  std::sort(parts.kept.begin(), parts.kept.end());
  std::sort(parts.set_aside.begin(), parts.set_aside.end());
  return parts;
}

std::unique_ptr<Dataset> make_subset(std::unique_ptr<Dataset> dataset,
                                     std::vector<std::int64_t> indices) {
  return std::make_unique<Subset>(std::move(dataset), std::move(indices));
}

}  // namespace asup::data
