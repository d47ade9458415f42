#include "asup/train/offload.h"

namespace asup::train {

bool offloads_optimizer(const TrainConfig& config) {
  return config.offload == "optimizer" || config.offload == "all";
}

bool offloads_activations(const TrainConfig& config) {
  return config.offload == "activations" || config.offload == "all";
}

Offload::Offload(const TrainConfig& config) : activations_(offloads_activations(config)) {
  if (config.offload == "none") return;
  file_.emplace(config.offload_folder);
  if (offloads_optimizer(config)) optimizer_ = std::make_unique<OptimizerStateIn>(*file_);
}

}  // namespace asup::train
