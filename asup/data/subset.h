// Some samples of a data set, as a data set. Constant after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "asup/data/dataset.h"

namespace asup::data {

// Samples 0 … size-1 in two parts, each in ascending order.
struct TwoParts {
  std::vector<std::int64_t> kept, set_aside;
};
// A share of them is set aside, chosen by the seed alone: at least one sample on either side.
// needs: two samples
TwoParts set_aside(std::size_t size, double share, std::uint64_t seed);

// needs: indices in range
std::unique_ptr<Dataset> make_subset(std::unique_ptr<Dataset> dataset,
                                     std::vector<std::int64_t> indices);

}  // namespace asup::data
