// A step of a worker that has all layers of the model: forward and backward of its samples. Used
// from one thread.
#pragma once

#include <optional>

#include "asup/base/noise_scale.h"
#include "asup/data/dataset.h"
#include "asup/models/compute_path.h"
#include "asup/models/model.h"
#include "asup/precision/grad_scaler.h"
#include "asup/sync/gradients/gradient_hooks.h"
#include "asup/sync/model/device.h"
#include "asup/sync/replica.h"
#include "asup/train/config.h"
#include "asup/train/loop/step_executor.h"
#include "asup/train/offload.h"
#include "asup/train/step_hooks.h"

namespace asup::train {

class TrainStep final : public StepExecutor {
 public:
  // What it refers to must outlive it; the settings are copied. `noise` learns from the portions of
  // this worker's batches, where there are several; null where grad() is not its own after
  // backward.
  // `scaler`: of losses; null where they are not scaled.
  TrainStep(models::Model& model, torch::optim::Optimizer& optimizer, Replica& replica,
            const models::ComputePath& path, const TrainConfig& config, StepHooks& hooks,
            const Offload& offload, NoiseScale* noise, GradScaler* scaler = nullptr);

  StepOutcome run(const StepWork& work, double progress) override;

 private:
  void let_gradients_be_watched();
  double waited() const;
  double squared_gradient() const;
  void keep_company(const data::Batch& batch);
  sync::FetchedNumber portion(const data::Batch& batch, double weight);

  models::Model& model_;
  torch::optim::Optimizer& optimizer_;
  Replica& replica_;
  StepHooks& hooks_;
  const models::ComputePath path_;
  const torch::Device device_;
  const Offload& offload_;
  // A worker's part of a batch is cut into so many portions (`--accumulate`), or into fewer that
  // are as large as usual, where there is less of it.
  const std::size_t portions_, portion_size_;
  const bool sums_statistics_;    // with other workers (`--sync-bn`): it takes part without samples
  const bool computes_together_;  // with others, who gather parameters with it
  const double label_smoothing_;
  NoiseScale* const noise_;
  GradScaler* const scaler_;
  const std::uint64_t looks_every_;  // steps
  std::uint64_t steps_ = 0;
  double waited_before_ = 0;                           // this batch
  std::optional<sync::GradientHooks> gradient_hooks_;  // last: they use all above
};

}  // namespace asup::train
