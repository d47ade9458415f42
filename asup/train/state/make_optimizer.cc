#include "asup/train/state/make_optimizer.h"

#include "asup/base/error.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lars.h"

namespace asup::train {

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const models::Model& model) {
  const auto parameters = model.parameters();
  const double lr = config.lr.value(), decay = config.weight_decay;
  if (config.optimizer == "sgd") {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(lr)
                                                               .momentum(config.momentum)
                                                               .nesterov(config.nesterov)
                                                               .weight_decay(decay));
  }
  if (config.optimizer == "adam") {
    return std::make_unique<torch::optim::Adam>(parameters,
                                                torch::optim::AdamOptions(lr).weight_decay(decay));
  }
  if (config.optimizer == "adamw") {
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(lr).weight_decay(decay));
  }
  if (config.optimizer == "lars") {
    return std::make_unique<optim::Lars>(
        parameters, optim::LarsOptions(lr).momentum(config.momentum).weight_decay(decay));
  }
  if (config.optimizer == "asup") {
    return std::make_unique<optim::AsupMomentum>(
        parameters, optim::AsupOptions(lr).momentum(config.momentum).weight_decay(decay));
  }
  check(config.optimizer == "rmsprop", "no optimizer {}", config.optimizer);
  return std::make_unique<torch::optim::RMSprop>(
      parameters, torch::optim::RMSpropOptions(lr).momentum(config.momentum).weight_decay(decay));
}

}  // namespace asup::train
