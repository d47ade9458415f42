#include "asup/train/state/switch_strategy.h"

#include "asup/distribute/distribute.h"
#include "asup/distribute/strategy.h"
#include "asup/report/run_folder.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/train/checkpoint/tensor_pack.h"
#include "asup/train/state/transfer_optimizer_state.h"

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
  const std::string handover = report::RunFolder(config.out).handover();
  const auto average_state = [&] {
    sync::average_state(*context.control, *context.optimizer, sync::parameters_of(*context.model));
  };
  const bool had_own = context.replica->keeps_own_optimizer();
  if (context.server) take_from_servers(context, context.config, handover, /*saves=*/true);
  const auto statistics = sync::buffers_of(*context.model);
  const std::string own = pack_tensors(statistics);

  take_replica_down(context);
  context.phase = Phase::second;
  context.switched_after = step;
  context.config = of_phase(config, context.phase, context.length);
  // Workers at their own pace meet by another kind.
  context.control = make_communicator(job, context.config.strategy);
  if (context.config.strategy.capabilities().needs_servers) {
    if (had_own) average_state();
    make_replica_of_phase(context, job, step, hand_to_servers(context, handover));
    has_been_handed(context, handover);
  } else {
    make_replica_of_phase(context, job, step);
    if (had_own && !context.replica->keeps_own_optimizer()) average_state();
  }
  unpack_tensors(own, statistics);  // the new replica began with rank 0's
}

}  // namespace asup::train
