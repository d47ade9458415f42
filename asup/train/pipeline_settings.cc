#include "asup/train/pipeline_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "asup/base/error.h"

namespace asup::train {
namespace {

constexpr std::int64_t kMicroBatchesOfAStage = 4;

// The most parts, up to `most`, into which so many samples are cut evenly.
std::int64_t most_even_parts(std::int64_t samples, std::int64_t most) {
  std::int64_t parts = std::clamp<std::int64_t>(most, 1, std::max<std::int64_t>(1, samples));
  while (samples % parts != 0) --parts;
  return parts;
}

// What has no meaning for parts of a model, or is not made for them.
void check_settings(const TrainConfig& config) {
  refuse_spread(config, "accumulate",
                "its micro-batches are portions of a batch already: say microbatches");
  refuse_spread(config, "balance", "its stages are cut by the workers' speeds instead");
  refuse_spread(config, "sync-bn", "BatchNorm takes its statistics from a micro-batch");
  refuse_spread(config, "batch-schedule", "its batches are of one size");
  require(config.precision != "fp16",
          "precision = fp16 scales the loss of a whole batch, which pipeline = {} cuts up: use "
          "precision = bf16.",
          config.pipeline);
  require(config.precision == "fp32" ||
              !parallel::find_schedule(config.pipeline_schedule).splits_backward,
          "precision = {}: pipeline-schedule = {} computes gradients of weights later, in f32. Use "
          "pipeline-schedule = 1f1b, or precision = fp32.",
          config.precision, config.pipeline_schedule);
}

void check_batch(const TrainConfig& config) {
  const std::int64_t groups = groups_of(config);
  require(
      config.batch % groups == 0,
      "batch = {} cannot be dealt out evenly to {} groups of {} workers: give a multiple of {}.",
      config.batch, groups, config.workers / groups, groups);
  const std::int64_t part = config.batch / groups;
  const std::int64_t micro_batches = micro_batches_of(config);
  require(part % micro_batches == 0,
          "microbatches = {} do not divide a group's part of a batch, which has {} samples (batch "
          "{} / {} groups): give one of its divisors, such as {}, or another batch.",
          micro_batches, part, config.batch, groups, most_even_parts(part, micro_batches));
}

// A run goes on from a checkpoint, as its next generation, by what it has measured of its layers.
void check_rebalance(const TrainConfig& config) {
  if (!config.rebalance) return;
  require(
      cuts_by_measure(config),
      "rebalance = true cuts stages again by what was measured, and pipeline-cut = {} says where "
      "they end: leave one of the two out.",
      config.pipeline_cut);
  require(config.checkpoint_every.kind != Every::Kind::never,
          "rebalance = true goes on from a checkpoint, and checkpoint-every = never makes none: "
          "leave one of the two out.");
  require(
      !config.strategy.capabilities().needs_servers,
      "rebalance = true is for groups that stay in step (sync = allreduce): by sync = {} a slow "
      "group takes fewer samples. Leave it out.",
      config.strategy.name());
  require(
      config.links != "mpi",
      "rebalance = true makes new links between workers, which links = mpi cannot: leave one of "
      "the two out.");
}

}  // namespace

std::vector<std::string> pipeline_details() {
  return {"pipeline-schedule", "pipeline-chunks", "pipeline-cut", "microbatches",
          "recompute",         "worker-memory",   "rebalance"};
}

std::int64_t micro_batches_of(const TrainConfig& config) {
  if (config.microbatches) return *config.microbatches;
  return most_even_parts(config.batch / groups_of(config), kMicroBatchesOfAStage * config.pipeline);
}

bool deals_evenly(const TrainConfig& config) {
  const std::int64_t groups = groups_of(config);
  return config.batch % groups == 0 && config.batch / groups % micro_batches_of(config) == 0;
}

int micro_batches_for(std::int64_t samples, const TrainConfig& config) {
  const std::int64_t usual = micro_batches_of(config), size = samples_at_a_time(config);
  if (samples > usual * size && samples % size == 0) return static_cast<int>(samples / size);
  // One sample has no statistics.
  const std::int64_t least = std::max(std::min<std::int64_t>(size, 2), size / 2);
  return static_cast<int>(most_even_parts(samples, std::min(usual, samples / least)));
}

std::int64_t samples_at_a_time(const TrainConfig& config) {
  const std::int64_t portions = has_pipeline(config) ? micro_batches_of(config) : config.accumulate;
  return std::max<std::int64_t>(1, config.batch / groups_of(config) / portions);
}

parallel::PipelineSpec pipeline_spec(const TrainConfig& config) {
  const parallel::PipelineSchedule& schedule = parallel::find_schedule(config.pipeline_schedule);
  return {.ranks = static_cast<int>(config.pipeline),
          .micro_batches = static_cast<int>(micro_batches_of(config)),
          .chunks = static_cast<int>(config.pipeline_chunks.value_or(schedule.least_chunks)),
          .placement = schedule.placement};
}

std::vector<int> layers_by_setting(const TrainConfig& config) {
  const std::string& text = config.pipeline_cut;
  if (cuts_by_measure(config) || text == "even") return {};
  std::vector<int> layers;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    int count = 0;
    const auto [stop, error] = std::from_chars(at, end, count);
    const bool is_number = error == std::errc() && count > 0;
    require(is_number && (stop == end || (*stop == ',' && stop + 1 < end)),
            "pipeline-cut = '{}' is not auto, even, or how many layers each stage has, like 4,5,3.",
            text);
    layers.push_back(count);
    at = stop == end ? end : stop + 1;
  }
  const int stages = pipeline_spec(config).stages();
  require(std::ssize(layers) == stages,
          "pipeline-cut = {} has layers for {} stages, and there are {}: give one number for each.",
          text, layers.size(), stages);
  return layers;
}

void check_pipeline(const TrainConfig& config) {
  check_settings(config);
  check_batch(config);
  parallel::require_valid(parallel::find_schedule(config.pipeline_schedule), pipeline_spec(config));
  (void)layers_by_setting(config);
  require(
      !config.worker_memory.bytes || cuts_by_measure(config),
      "worker-memory = {} is what stages are to fit that are cut by measure, and pipeline-cut = "
      "{} says where they end: leave one of the two out.",
      config.worker_memory.to_text(), config.pipeline_cut);
  check_rebalance(config);
}

void check_pipeline_of(const TrainConfig& config, models::Model& model) {
  const auto layers = std::ssize(model.layers());
  require(layers > 0,
          "pipeline = {}: model {} is no sequence of layers that could be cut into stages; mlp, "
          "cnn, gpt and the ResNets are.",
          config.pipeline, config.model);
  const int stages = pipeline_spec(config).stages();
  require(
      layers >= stages,
      "{} stages of a model of {} layers: each stage has one at least. Lower pipeline{}, or use "
      "a deeper model.",
      stages, layers, config.pipeline_chunks.value_or(1) > 1 ? " or pipeline-chunks" : "");
  const std::vector<int> given = layers_by_setting(config);
  const int sum = std::accumulate(given.begin(), given.end(), 0);
  require(given.empty() || sum == layers,
          "pipeline-cut = {} is of {} layers, and the model has {}.", config.pipeline_cut, sum,
          layers);
}

}  // namespace asup::train
