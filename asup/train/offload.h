// What of a worker's tensors lies on a disk (`--offload`). Used from the thread that trains.
#pragma once

#include <memory>
#include <optional>

#include "asup/tensors/tensor_places.h"
#include "asup/train/config.h"

namespace asup::train {

bool offloads_optimizer(const TrainConfig& config);
bool offloads_activations(const TrainConfig& config);

class Offload {
 public:
  Offload() = default;
  // Throws BadInput for a folder that cannot be used.
  explicit Offload(const TrainConfig& config);

  // While it is there, tensors that are made lie on the disk, where activations are to.
  using Place = std::optional<TensorsIn>;
  Place activations() const { return activations_ ? Place(std::in_place, *file_) : Place(); }

 private:
  std::optional<TensorFile> file_;
  bool activations_ = false;
  std::unique_ptr<OptimizerStateIn> optimizer_;  // as long as this
};

}  // namespace asup::train
