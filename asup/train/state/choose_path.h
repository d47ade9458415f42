// How a run computes its model: as the configuration, the checkpoint or the last run says, or as is
// fastest (models/compute_path.h). Used from the thread that trains.
#pragma once

#include <string>

#include "asup/models/compute_path.h"
#include "asup/train/state/training_context.h"

namespace asup::train {

struct PathChoice {
  models::ComputePath path;
  std::string note;  // how it was found, for people; empty: there was nothing to choose
};

// As rank 0 has it. Weights lie in memory as it says when this returns. needs: a model on its
// device that nothing holds views of, and the data. Collective.
PathChoice choose_path(TrainingContext& context, const Job& job);

// The data set's first, as many as a worker computes at a time, on the worker's device.
data::Batch first_samples(const TrainingContext& context);

}  // namespace asup::train
