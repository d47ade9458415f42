// An exponential moving average of a model's weights (`--ema`), kept beside the model on its
// device. After step n
//
//   average += (1 - d) * (weights - average),   d = min(decay, (1 + n) / (10 + n)),
//
// so that a short run's average is not full of its first weights. The same goes for buffers that
// are no counts: BatchNorm's statistics belong to the weights that they were seen with, and
// averaged weights are older than the last statistics.
//
// Each worker averages its own model. Averages are linear: where models differ between merges and
// all workers step together, the mean of their averages is the average of the mean model. Used from
// the thread that trains.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup::train {

class WeightAverage {
 public:
  // Begins as the module is now, which must outlive it.
  WeightAverage(torch::nn::Module& module, double decay);

  // The module has taken step `step`, counted from 1.
  void update(std::int64_t step);

  // While `use` runs, the module has the average, the mean over ranks of what differs: buffers, and
  // parameters where `models_differ`; then it has its own again, also when `use` throws.
  // Collective.
  void with_mean(Communicator& communicator, bool models_differ, const std::function<void()>& use);
  // The mean over ranks takes the place of each one's. Collective.
  void merge(Communicator& communicator);

  // By the names of what they are averages of: all, and those of buffers alone. What is copied into
  // them counts.
  const std::vector<sync::NamedTensor>& tensors() const { return averages_; }
  std::vector<sync::NamedTensor> buffers() const;
  // Copies of the module's tensors that are averaged, as they are now.
  std::vector<sync::NamedTensor> copies() const;

 private:
  torch::nn::Module& module_;
  const double decay_;
  const std::vector<sync::NamedTensor> averaged_;  // the module's own: parameters, then buffers
  std::size_t parameters_ = 0;                     // how many of them are
  std::vector<sync::NamedTensor> averages_;
};

}  // namespace asup::train
