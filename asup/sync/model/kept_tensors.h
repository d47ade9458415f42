// Tensors that are changed for a while. Used from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "asup/sync/model/tensors.h"

namespace asup::sync {

// Copies tensors, and puts them back, bit for bit, when it goes.
class KeptTensors {
 public:
  explicit KeptTensors(std::vector<NamedTensor> tensors);
  ~KeptTensors();
  KeptTensors(const KeptTensors&) = delete;
  KeptTensors& operator=(const KeptTensors&) = delete;

  // The square of the distance of what the tensors hold now to what they held.
  double squared_distance() const;

 private:
  const std::vector<NamedTensor> tensors_;
  std::vector<torch::Tensor> copies_;
};

}  // namespace asup::sync
