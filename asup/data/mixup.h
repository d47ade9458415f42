// Mixes each sample of a Dataset with another of it: "mixup: Beyond empirical risk minimization",
// Zhang et al., ICLR 2018, https://arxiv.org/abs/1710.09412. Constant after construction.
#pragma once

#include <memory>

#include "asup/data/dataset.h"

namespace asup::data {

// The partner and the shares depend on (seed, epoch, index) alone, not on who else is in the batch:
// all numbers of workers train on the same samples. So a batch reads twice as many samples. Targets
// become shares of the classes. needs: strength > 0
std::unique_ptr<Dataset> make_mixed(std::unique_ptr<Dataset> dataset, double strength,
                                    std::uint64_t seed);

// From Beta(strength, strength), in steps of 2^-12.
float draw_share(double strength, class Random& random);

}  // namespace asup::data
