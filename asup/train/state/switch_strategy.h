// A run goes on by another way of staying in step. Used from the thread that trains.
#pragma once

#include "asup/net/job.h"
#include "asup/train/state/training_context.h"

namespace asup::train {

// Takes the replica down and makes that of the second phase of `config`, on the same model and
// optimizer, after `step` steps. What goes from any way to any other is one neutral state: the
// model's parameters and the optimizer's own tensors, the same on all ranks
// (Replica::gather_optimizer_state()). Statistics stay each rank's own. What the replica itself
// knew (an outer momentum, an order of gradients) is not carried over.
//
// Collective. needs: synchronize() since the last step. Throws JobFailed where models differ
// between ranks.
void switch_strategy(TrainingContext& context, Job& job, const TrainConfig& config,
                     std::int64_t step);

}  // namespace asup::train
