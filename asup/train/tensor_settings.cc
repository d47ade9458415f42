#include "asup/train/tensor_settings.h"

#include "asup/base/error.h"
#include "asup/train/grid_settings.h"

namespace asup::train {

void check_tensor(const TrainConfig& config) {
  require(
      !has_pipeline(config),
      "pipeline = {} and tensor = {}: asup train spreads a model by layers or by parts of them. "
      "Leave one of them out, or use asup::parallel::Grid in a program of your own.",
      config.pipeline, config.tensor);
  refuse_spread(config, "balance", "the workers of a group have the same samples");
  require(config.precision == "fp32",
          "precision = {}: the layers of tensor = {} compute in f32. Leave precision out.",
          config.precision, config.tensor);
  require(
      config.optimizer != "lars" && config.optimizer != "lamb",
      "optimizer = {} takes the norm of each whole tensor, of which tensor = {} leaves a worker "
      "a part. Use sgd, adam, adamw, rmsprop or asup.",
      config.optimizer, config.tensor);
}

}  // namespace asup::train
