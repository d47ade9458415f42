#include "asup/train/state/transfer_optimizer_state.h"

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/collective/text_exchange.h"
#include "asup/report/run_folder.h"
#include "asup/sync/server/parameter_server.h"
#include "asup/sync/server/server_state.h"

namespace asup::train {
namespace {

sync::ServerState state_of(const TrainingContext& context, const TrainConfig& config) {
  const Strategy& strategy = config.strategy;
  const auto* adaptive = strategy.as<Asup>();
  const auto& options = adaptive ? adaptive->server : *strategy.as<ParameterServer>();
  return {*context.model, *context.optimizer, server_options(options, strategy.timeout)};
}

// Whether rank 0 did it; else it says why not.
template <typename Work>
bool done_by_first_rank(Communicator& control, const Work& work) {
  std::string complaint;
  try {
    if (control.rank() == 0) work();
  } catch (const BadInput& error) {
    complaint = error.what();
  } catch (const JobFailed& error) {
    complaint = error.what();
  }
  complaint = broadcast_text(control, complaint);
  if (!complaint.empty() && control.rank() == 0)
    log().warn("the optimizer's state begins anew: {}", complaint);
  return complaint.empty();
}

bool seen_by_all(Communicator& control, const std::string& path) {
  std::int32_t seen = report::RunFolder::has_shards(path) ? 1 : 0;
  control.all_reduce(buffer_of(std::span(&seen, 1)), ReduceOp::min).or_throw();
  if (seen == 0 && control.rank() == 0)
    log().warn(
        "the optimizer's state begins anew: {}, which servers were to read it from, is not on a "
        "file system that all hosts share",
        std::filesystem::path(path).parent_path().string());
  return seen == 1;
}

}  // namespace

std::string hand_to_servers(const TrainingContext& context, const std::string& path) {
  Communicator& control = *context.control;
  const std::string whole = std::filesystem::absolute(path).string();
  const bool handed =
      done_by_first_rank(control, [&] { state_of(context, context.config).write(whole); });
  return handed && seen_by_all(control, whole) ? whole : "";
}

void has_been_handed(const TrainingContext& context, const std::string& path) {
  state_of(context, context.config).forget();
  if (context.control->rank() == 0) report::RunFolder::remove_shards(path);
}

void take_from_servers(const TrainingContext& context, const TrainConfig& config,
                       const std::string& path, bool saves) {
  Communicator& control = *context.control;
  sync::ServerState state = state_of(context, config);
  const bool taken = done_by_first_rank(control, [&] {
    const std::string whole = std::filesystem::absolute(path).string();
    if (saves) context.server->save(whole);
    state.read(whole);
  });
  if (saves && control.rank() == 0) report::RunFolder::remove_shards(path);
  if (taken)
    sync::broadcast_state(control, *context.optimizer, state.parameters());
  else
    state.forget();
}

}  // namespace asup::train
