// What carries a step of this worker out: forward and backward of its samples. Where it has all
// layers, or a part of each, train_step.h; where layers are spread over workers, pipeline_step.h.
// Used from the thread that trains.
#pragma once

#include "asup/train/loop/work_source.h"

namespace asup::train {

class StepExecutor {
 public:
  virtual ~StepExecutor() = default;

  // Gradients of the work's samples, of which there may be none; they have been exchanged, are on
  // their way, or leave when the replica steps. `progress` is the share of the run that is done.
  virtual StepOutcome run(const StepWork& work, double progress) = 0;
};

}  // namespace asup::train
