#include "asup/train/state/read_servers_state.h"

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/text_exchange.h"
#include "asup/sync/model/optimizer_state.h"
#include "asup/sync/server/parameter_server.h"
#include "asup/sync/server/server_state.h"

namespace asup::train {

void read_servers_state(const TrainingContext& context, const TrainConfig& config,
                        const std::string& path) {
  Communicator& control = *context.control;
  const Strategy& strategy = config.strategy;
  const auto* adaptive = strategy.as<Asup>();
  const auto& options = adaptive ? adaptive->server : *strategy.as<ParameterServer>();
  sync::ServerState state(*context.model, *context.optimizer,
                          server_options(options, strategy.timeout));
  std::string complaint;
  try {
    if (control.rank() == 0) state.read_files(path);
  } catch (const BadInput& error) {
    complaint = error.what();
  }
  complaint = broadcast_text(control, complaint);
  if (complaint.empty())
    return sync::broadcast_state(control, *context.optimizer, state.parameters());
  state.forget();
  if (control.rank() == 0) log().warn("the optimizer's state begins anew: {}", complaint);
}

}  // namespace asup::train
