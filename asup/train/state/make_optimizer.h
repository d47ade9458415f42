// The optimizer of a configuration. Safe from any thread.
#pragma once

#include <memory>

#include "asup/models/model.h"
#include "asup/train/config.h"

namespace asup::train {

// The one that config.optimizer names, with the configuration's options. Of a model that wants it,
// biases and norms are in a group that does not decay.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const models::Model& model);
// The same of a part of such a model.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const torch::nn::Module& part,
                                                        bool decays_matrices_alone);

}  // namespace asup::train
