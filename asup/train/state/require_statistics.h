// BatchNorm in training takes its statistics from the samples that a worker computes at a time: of
// one alone there are none. A pure function; safe from any thread.
#pragma once

#include <torch/torch.h>

#include "asup/train/config.h"

namespace asup::train {

// Throws BadInput where the model has BatchNorm, and a worker would have one sample alone: where a
// batch has fewer than two for each, and for each part that it accumulates, or where `samples` of
// an epoch leave one for its last batch.
void require_statistics(const torch::nn::Module& model, const TrainConfig& config,
                        std::size_t samples);

}  // namespace asup::train
