// A step of a worker that has some of the model's layers: its group's part of the batch goes
// through the pipeline's schedule, and gradients leave when all of it is through. Used from the
// thread that trains.
#pragma once

#include <torch/torch.h>

#include "asup/sync/replica.h"
#include "asup/train/loop/step_executor.h"
#include "asup/train/state/spread_model.h"
#include "asup/train/step_hooks.h"

namespace asup::train {

class PipelineStep final : public StepExecutor {
 public:
  // What it refers to must outlive it.
  PipelineStep(SpreadModel& model, torch::optim::Optimizer& optimizer, Replica& replica,
               StepHooks& hooks)
      : model_(model), optimizer_(optimizer), replica_(replica), hooks_(hooks) {}

  StepOutcome run(const StepWork& work, double progress) override;

 private:
  SpreadModel& model_;
  torch::optim::Optimizer& optimizer_;
  Replica& replica_;
  StepHooks& hooks_;
};

}  // namespace asup::train
