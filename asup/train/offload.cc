#include "asup/train/offload.h"

namespace asup::train {

bool offloads_optimizer(const TrainConfig& config) {
  return config.offload == "optimizer" || config.offload == "all";
}

bool offloads_activations(const TrainConfig& config) {
  return config.offload == "activations" || config.offload == "all";
}

Offload::Offload(const TrainConfig& config)
    : optimizer_(offloads_optimizer(config)), activations_(offloads_activations(config)) {
  if (optimizer_ || activations_) file_.emplace(config.offload_folder);
}

}  // namespace asup::train
