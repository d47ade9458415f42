#include "asup/train/state/require_statistics.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/sync/model/sync_batch_norm.h"
#include "asup/train/pipeline_settings.h"

namespace asup::train {
namespace {

bool has_batch_norm(const torch::nn::Module& model) {
  const auto modules = model.modules();
  return std::any_of(modules.begin(), modules.end(), [](const auto& module) {
    return module->template as<torch::nn::BatchNorm1d>() ||
           module->template as<torch::nn::BatchNorm2d>() ||
           module->template as<torch::nn::BatchNorm3d>() || module->template as<SyncBatchNorm>();
  });
}

}  // namespace

void require_statistics(const torch::nn::Module& model, const TrainConfig& config,
                        std::size_t samples) {
  if (!has_batch_norm(model)) return;
  require(!has_pipeline(config) || samples_at_a_time(config) >= 2,
          "microbatches = {} leaves micro-batches of one sample, of which BatchNorm has no "
          "statistics. Use fewer, or a larger batch.",
          micro_batches_of(config));
  const std::int64_t parts = config.sync_bn ? 1 : groups_of(config) * config.accumulate;
  require(
      config.batch >= 2 * parts,
      "batch = {} leaves some of {} workers{} with one sample at a time, of which BatchNorm has "
      "no statistics. Use a batch of at least {}, or fewer workers.",
      config.batch, config.workers,
      config.accumulate > 1 ? fmt::format(", which accumulate {} parts,", config.accumulate) : "",
      2 * parts);
  require(config.remainder != "keep" || samples % static_cast<std::size_t>(config.batch) != 1,
          "the last of an epoch's batches has one sample, of which BatchNorm has no statistics: {} "
          "samples in batches of {}. Say remainder = drop or pad, or another batch.",
          samples, config.batch);
}

}  // namespace asup::train
