// Batches that grow while a run goes on (`--batch-schedule`), where a learning rate would fall
// (Smith et al., "Don't Decay the Learning Rate, Increase the Batch Size", 2018). Pure; safe from
// any thread.
//
// A step stays a global batch: epochs, tests and checkpoints are counted in those. What grows is an
// update of the weights, which is of the samples of several steps in succession.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "asup/config/step_or_share.h"
#include "asup/train/schedule.h"

namespace asup::train {

// From this moment on, updates have `factor` times as many samples as before it.
struct Growth {
  std::int64_t factor = 2;
  StepOrShare at;
};

// "4@50%,4@75%"; "none" has none. Throws BadInput.
std::vector<Growth> parse_batch_schedule(const std::string& text);

class Updates {
 public:
  // Throws BadInput for growths that are not within the run, or not one after the other.
  Updates(const TrainConfig& config, const RunLength& length);

  // Steps of the update that begins when `step` are done: those of its growth, or what is left of
  // the epoch or the run. needs: an update begins there, and step < length.steps
  std::int64_t steps(std::int64_t step) const;
  // How many steps were done when the update began that has step `step`, counted from 0.
  std::int64_t begin(std::int64_t step) const;
  // When it is done that is under way when `step` are, or that ends there.
  std::int64_t end(std::int64_t step) const;
  bool grow() const { return from_.size() > 1; }
  // Of the whole run.
  std::int64_t count() const;

 private:
  struct From {
    std::int64_t step = 0, steps_of_update = 1;
  };

  RunLength length_;
  std::vector<From> from_{{}};
};

}  // namespace asup::train
