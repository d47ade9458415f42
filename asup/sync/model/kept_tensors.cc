#include "asup/sync/model/kept_tensors.h"

#include <utility>

#include "asup/base/quietly.h"

namespace asup::sync {

KeptTensors::KeptTensors(std::vector<NamedTensor> tensors) : tensors_(std::move(tensors)) {
  for (const NamedTensor& named : tensors_) copies_.push_back(named.tensor.detach().clone());
}

KeptTensors::~KeptTensors() {
  quietly([this] {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].tensor.detach().copy_(copies_[i]);
  });
}

double KeptTensors::squared_distance() const {
  double sum = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const double distance = (tensors_[i].tensor.detach() - copies_[i]).norm().item<double>();
    sum += distance * distance;
  }
  return sum;
}

}  // namespace asup::sync
