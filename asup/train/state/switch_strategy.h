// A run goes on by another way of staying in step. Used from the thread that trains.
#pragma once

#include "asup/net/job.h"
#include "asup/train/state/training_context.h"

namespace asup::train {

// Takes the replica down and makes that of the second phase of `config`, on the same model and
// optimizer, after `step` steps. Models are one on all ranks. Statistics stay each rank's own; so
// does the optimizer's state, where both ways let it be, or else it becomes the average. It goes to
// servers and comes from them through files in the run's folder (transfer_optimizer_state.h). What
// the replica itself knew (an outer momentum, an order of gradients) is not carried over.
//
// Collective. needs: synchronize() since the last step. Throws JobFailed where models differ
// between ranks.
void switch_strategy(TrainingContext& context, Job& job, const TrainConfig& config,
                     std::int64_t step);

}  // namespace asup::train
