#include "asup/train/state/switch_strategy.h"

#include "asup/distribute/distribute.h"

namespace asup::train {
namespace {

void take_replica_down(TrainingContext& context) {
  context.optimizer->zero_grad();  // gradients may lie in memory of the replica
  context.server = nullptr;
  context.local = nullptr;
  context.replica.reset();
  context.gradients.reset();
  context.choices.observed.clear();
  context.choices.parts.clear();
}

}  // namespace

void switch_strategy(TrainingContext& context, Job& job, const TrainConfig& config,
                     std::int64_t step) {
  context.replica->check_equal();
  context.replica->gather_optimizer_state();
  if (context.average && context.local) context.average->merge(*context.control);
  take_replica_down(context);
  context.phase = Phase::second;
  context.switched_after = step;
  context.config = of_phase(config, context.phase, context.length);
  // Workers at their own pace meet by another kind.
  context.control = make_communicator(job, context.config.strategy);
  make_replica_from_neutral_state(context, job, step);
}

}  // namespace asup::train
