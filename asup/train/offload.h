// What of a worker's tensors lies on a disk (`--offload`). Used from the thread that trains.
#pragma once

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

  // While it is there, tensors that are made lie on the disk, where these are to.
  using Place = std::optional<TensorsIn>;
  Place optimizer() const { return optimizer_ ? Place(std::in_place, *file_) : Place(); }
  Place activations() const { return activations_ ? Place(std::in_place, *file_) : Place(); }

 private:
  std::optional<TensorFile> file_;
  bool optimizer_ = false, activations_ = false;
};

}  // namespace asup::train
