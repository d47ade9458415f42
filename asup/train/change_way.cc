#include "asup/train/change_way.h"

#include "asup/sync/optimizer_state.h"
#include "asup/train/carry_state.h"
#include "asup/train/distribute.h"
#include "asup/train/run_folder.h"
#include "asup/train/strategy.h"
#include "asup/train/tensor_pack.h"

namespace asup::train {
namespace {

void take_replica_down(Setup& setup) {
  setup.optimizer->zero_grad();  // gradients may lie in memory of the replica
  setup.server = nullptr;
  setup.replica.reset();
  setup.gradients.reset();
  setup.choices.learned.clear();
  setup.choices.parts.clear();
}

}  // namespace

void change_way(Setup& setup, Job& job, const TrainConfig& config, std::int64_t step) {
  setup.replica->check_equal();
  const std::string handover = RunFolder(config.out).handover();
  const auto average_state = [&] {
    sync::average_state(*setup.control, *setup.optimizer, sync::parameters_of(*setup.model));
  };
  const bool had_own = setup.replica->keeps_own_optimizer();
  if (setup.server) take_from_servers(setup, setup.config, handover, /*saves=*/true);
  const auto statistics = sync::buffers_of(*setup.model);
  const std::string own = pack_tensors(statistics);

  take_replica_down(setup);
  setup.phase = Phase::second;
  setup.switched_after = step;
  setup.config = of_phase(config, setup.phase, setup.length);
  // Workers at their own pace meet by another kind.
  setup.control = make_communicator(job, strategy_of(setup.config));
  if (strategy_of(setup.config).needs_servers()) {
    if (had_own) average_state();
    make_replica_of_phase(setup, job, step, hand_to_servers(setup, handover));
    has_been_handed(setup, handover);
  } else {
    make_replica_of_phase(setup, job, step);
    if (had_own && !setup.replica->keeps_own_optimizer()) average_state();
  }
  unpack_tensors(own, statistics);  // the new replica began with rank 0's
}

}  // namespace asup::train
