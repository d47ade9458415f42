#include "asup/train/tensor_settings.h"

#include "asup/base/error.h"
#include "asup/train/grid_settings.h"

namespace asup::train {

void check_tensor(const TrainConfig& config) {
  refuse_spread(config, "balance", "the workers of a group have the same samples");
  require(config.precision == "fp32" || config.precision == "bf16",
          "precision = {}: the workers of tensor = {} compute each layer together, and none can "
          "measure what is faster, or scale a loss, by itself. Use precision = bf16, or leave it "
          "out.",
          config.precision, config.tensor);
  require(
      config.optimizer != "lars" && config.optimizer != "lamb",
      "optimizer = {} takes the norm of each whole tensor, of which tensor = {} leaves a worker "
      "a part. Use sgd, adam, adamw, rmsprop or asup.",
      config.optimizer, config.tensor);
}

}  // namespace asup::train
