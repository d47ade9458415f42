// One step of training on this rank: forward, backward, exchange, update. Used from one thread.
#pragma once

#include "asup/data/dataset.h"
#include "asup/models/convolution_path.h"
#include "asup/models/model.h"
#include "asup/sync/replica.h"
#include "asup/train/config.h"

namespace asup::train {

// The one that config.optimizer names, with the configuration's options.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const models::Model& model);

class Stepper {
 public:
  // What it refers to must outlive it. `portions`: see `--accumulate`.
  Stepper(models::Model& model, torch::optim::Optimizer& optimizer, Replica& replica,
          models::ConvolutionPath path, int ranks, std::int64_t portions)
      : model_(model),
        optimizer_(optimizer),
        replica_(replica),
        path_(path),
        ranks_(ranks),
        portions_(portions) {}

  // `batch` is this rank's part, maybe empty, of a global batch of `samples`: the update is that of
  // the mean loss over the global batch. Returns the sum of the losses of this rank's samples.
  double step(const data::Batch& batch, std::size_t samples, double lr);

 private:
  double portion(const data::Batch& batch, double weight);

  models::Model& model_;
  torch::optim::Optimizer& optimizer_;
  Replica& replica_;
  const models::ConvolutionPath path_;
  const int ranks_;
  const std::int64_t portions_;
};

}  // namespace asup::train
