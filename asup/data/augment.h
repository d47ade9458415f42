// Random shifts and mirror images over any Dataset. Constant after construction.
#pragma once

#include <memory>

#include "asup/data/dataset.h"

namespace asup::data {

// What becomes of a sample depends on (seed, epoch, index) alone, not on the rank or batch it is
// in. Throws BadInput for a shift that is negative or as large as the image.
std::unique_ptr<Dataset> make_augmented(std::unique_ptr<Dataset> dataset,
                                        const AugmentOptions& options, std::uint64_t seed);

}  // namespace asup::data
