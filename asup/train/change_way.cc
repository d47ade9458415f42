#include "asup/train/change_way.h"

#include <utility>

#include "asup/base/log.h"
#include "asup/sync/optimizer_state.h"
#include "asup/train/tensor_pack.h"

namespace asup::train {

void change_way(Setup& setup, Job& job, const TrainConfig& config, std::int64_t step) {
  setup.replica->check_equal();
  const bool had_own = setup.replica->keeps_own_optimizer();
  const bool had_servers = std::exchange(setup.server, nullptr) != nullptr;
  const auto statistics = sync::buffers_of(*setup.model);
  const std::string own = pack_tensors(statistics);

  setup.optimizer->zero_grad();  // gradients may lie in memory of the replica
  setup.replica.reset();
  setup.choices.learned.clear();
  setup.choices.parts.clear();
  setup.phase = Phase::second;
  setup.switched_after = step;
  setup.config = of_phase(config, setup.phase, setup.length);
  make_replica_of_phase(setup, job, step, nullptr);

  unpack_tensors(own, statistics);  // the new replica began with rank 0's
  if (setup.server || had_servers) {
    if (job.rank() == 0)
      log().warn("after step {}, sync = {}: the optimizer's state begins anew", step,
                 setup.config.sync);
  } else if (had_own && !setup.replica->keeps_own_optimizer()) {
    sync::average_state(*setup.control, *setup.optimizer, sync::parameters_of(*setup.model));
  }
}

}  // namespace asup::train
