// A model's marks that was trained before. Used from one thread.
#pragma once

#include "asup/train/state/evaluate.h"
#include "asup/train/weights.h"

namespace asup::train {

// Of the test set of config.data, whose pixels are taken as those that the weights were trained on.
// Collective. Throws BadInput where weights, model and data do not go together.
Evaluation evaluate_weights(Communicator& communicator, const Weights& weights,
                            const TrainConfig& config, const torch::Device& device = torch::kCPU);

}  // namespace asup::train
