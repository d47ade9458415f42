// Made-up images that a model can learn to tell apart. Constant after construction.
#pragma once

#include <memory>

#include "asup/data/dataset.h"

namespace asup::data {

// The same options and seed give the same images; the splits share their classes' patterns. Throws
// BadInput for sizes below 1.
std::unique_ptr<Dataset> make_synthetic(const SyntheticOptions& options, std::uint64_t seed,
                                        Split split);

}  // namespace asup::data
