#include "asup/train/grid_settings.h"

#include <fmt/format.h>

#include "asup/base/error.h"
#include "asup/train/settings.h"

namespace asup::train {
namespace {

std::string_view name_of(const TrainConfig& config) {
  return has_pipeline(config) ? "pipeline" : "tensor";
}

std::int64_t count_of(const TrainConfig& config) {
  return has_pipeline(config) ? config.pipeline : config.tensor;
}

}  // namespace

parallel::GridShape grid_shape(const TrainConfig& config) {
  return parallel::grid_of(static_cast<int>(config.workers), static_cast<int>(config.pipeline),
                           static_cast<int>(config.tensor));
}

void refuse_spread(const TrainConfig& config, std::string_view setting, std::string_view why) {
  config::require_usual(settings(), config, setting,
                        fmt::format("{} is {}, and {}", name_of(config), count_of(config), why));
}

void check_spread(const TrainConfig& config, std::span<const Strategy> strategies) {
  const std::string_view name = name_of(config);
  const std::int64_t count = count_of(config);
  (void)grid_shape(config);  // throws where workers cannot be divided
  refuse_spread(config, "ema", "no worker has the whole model to average");
  require(!config.then,
          "{} = {} goes on by one way, and then = {} is another: leave one of them out.", name,
          count, config.then ? config.then->name() : "");
  require(config.device == "auto" || config.device == "cpu",
          "device = {}: asup train has {} on CPUs. Leave device out{}.", config.device,
          has_pipeline(config) ? "pipelines" : "tensor parallelism",
          has_pipeline(config) ? ", or use asup::parallel::Pipeline in a program of your own" : "");
  for (const Strategy& strategy : strategies) {
    const Capabilities can = strategy.capabilities();
    require(!can.needs_servers || has_tensor(config) || config.on_loss != "continue",
            "on-loss = continue: through servers, a group of {} = {} cannot go on without a worker "
            "that is lost. Leave it out, or train by sync = allreduce; restarts = 1 starts the run "
            "again from its last checkpoint.",
            name, count);
    require(!can.needs_servers || !has_tensor(config),
            "tensor = {}: each worker has a part of each large layer, and the servers of sync = {} "
            "keep whole ones. Train by sync = allreduce, or leave tensor out{}.",
            config.tensor, strategy.name(),
            has_pipeline(config) ? ": pipelines go through servers" : "");
    require(can.takes_parts,
            "{} = {}: each worker has a part of the model, and sync = {}, as it is set, is for "
            "whole ones. Train by sync = allreduce with shard none or optimizer and compress none, "
            "bf16, fp16 or int8 without compress-feedback{}; or leave {} out.",
            name, count, strategy.name(),
            has_tensor(config) ? ""
                               : ", or through servers (sync = server or asup) without merge, "
                                 "backup, compress and local-parameters",
            name);
  }
}

}  // namespace asup::train
