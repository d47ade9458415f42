#include "asup/train/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "asup/base/error.h"
#include "asup/data/dataset.h"
#include "asup/data/text/text_dataset.h"
#include "asup/data/text/tokenizer.h"
#include "asup/models/model.h"
#include "asup/train/batch_schedule.h"
#include "asup/train/offload.h"
#include "asup/train/phases.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/settings.h"
#include "asup/train/tensor_settings.h"
#include "asup/train/worker_changes.h"

namespace asup::train {
namespace {

void unused(const TrainConfig& config, std::string_view name, std::string_view because) {
  config::require_usual(settings(), config, name, because);
}

void check_balance(const TrainConfig& config, std::span<const Strategy> strategies) {
  if (std::none_of(strategies.begin(), strategies.end(), can_balance)) {
    require(!config.strategy.capabilities().leases_samples,
            "balance has no effect: through servers, a fast worker leases more samples at every "
            "pace but bsp. Leave it out.");
    throw BadInput(fmt::format(
        "balance is for ways that exchange gradients in lockstep, such as sync = allreduce, not "
        "for {}. Leave it out.",
        config.strategy.name()));
  }
  require(config.workers > 1,
          "balance divides batches among workers by their speed, and there is one worker. Raise "
          "workers, or leave balance out.");
}

void check_sync_bn(const TrainConfig& config, std::span<const Strategy> strategies) {
  const auto known = models::models();
  const auto model = std::find_if(known.begin(), known.end(), [&](const models::ModelInfo& info) {
    return info.name == config.model;
  });
  require(model != known.end(),
          "sync-bn is for the models that asup knows by name: what a library like {} makes, it "
          "cannot replace. Leave it out.",
          config.model);
  if (!model->batch_norm)
    unused(config, "sync-bn", fmt::format("model {} has no BatchNorm", config.model));
  for (const Strategy& strategy : strategies) {
    const Capabilities capabilities = strategy.capabilities();
    require(capabilities.lockstep && capabilities.exchanges == Exchange::gradients,
            "sync-bn needs all workers in the same layer of the same model at the same time, and "
            "with sync = {} each goes through its own steps. Leave it out, or train by sync = "
            "allreduce.",
            strategy.name());
  }
  require(config.accumulate == 1,
          "sync-bn takes statistics from a whole batch, which accumulate = {} cuts up. Leave one "
          "of them out.",
          config.accumulate);
}

// Elsewhere each worker steps by itself, or servers do whenever gradients come.
void check_batch_schedule(const TrainConfig& config, std::span<const Strategy> strategies) {
  if (parse_batch_schedule(config.batch_schedule).empty()) return;
  for (const Strategy& strategy : strategies)
    require(can_balance(strategy),
            "batch-schedule has all workers put several batches into one update, which sync = {} "
            "does not have. Leave it out, or train by sync = allreduce.",
            strategy.name());
  require(strategies.size() == 1,
          "batch-schedule is for runs by one way, and this one has then = {}. Leave one of them "
          "out.",
          strategies.back().name());
  require(!config.balance,
          "balance measures workers by batches of one size, and batch-schedule has them grow. "
          "Leave one of them out.");
  require(!config.sync_bn,
          "sync-bn takes statistics from a whole batch, and those that have grown are worked on in "
          "portions. Leave batch-schedule or sync-bn out.");
}

// Each worker goes through the layers as often as the others, and keeps nothing whole.
void check_computing_together(const TrainConfig& config, const Strategy& strategy) {
  require(
      config.ema == 0,
      "with sync = {} as it is set, a worker keeps a part of the parameters only, and ema would "
      "keep an average of all of them on each. Leave ema out, or use shard = gradients.",
      strategy.name());
  require(
      !config.balance && parse_batch_schedule(config.batch_schedule).empty(),
      "with sync = {} as it is set, workers gather each layer together, as often as they have "
      "portions of a batch, and balance and batch-schedule deal out different numbers of these. "
      "Leave them out, or use shard = gradients.",
      strategy.name());
}

// One of the run's strategies, as if it were the only one.
void check_strategy(const TrainConfig& config, const Strategy& strategy) {
  strategy.check();
  strategy.check_workers(static_cast<int>(groups_of(config)));
  require(
      !strategy.capabilities().needs_servers || config.servers.value_or(1) > 0,
      "sync = {} keeps the parameters on servers, and there are none: leave servers out for one, "
      "or say how many",
      strategy.name());
  require(
      config.ema == 0 || strategy.capabilities().lockstep,
      "ema is the average of a model that all workers step together, and with sync = {} as it is "
      "set, each goes at its own pace. Leave ema out, or train in lockstep, as sync = allreduce "
      "and local do.",
      strategy.name());
  if (strategy.capabilities().computes_together) check_computing_together(config, strategy);
  const bool goes_on_from_memory =
      strategy.capabilities().survives_loss || can_retake_steps(config, strategy);
  require(config.on_loss != "continue" || goes_on_from_memory ||
              config.checkpoint_every.kind != Every::Kind::never,
          "on-loss = continue goes on from the last checkpoint, and there will be none. Set "
          "checkpoint-every, or leave on-loss out.");
}

// Each setting is of use to one of the strategies at least.
void check_strategies(const TrainConfig& config, std::span<const Strategy> strategies) {
  const auto any = [&](auto has) {
    return std::any_of(strategies.begin(), strategies.end(),
                       [&](const Strategy& each) { return has(each.capabilities()); });
  };
  require(
      config.servers.value_or(0) == 0 || any([](const Capabilities& c) { return c.needs_servers; }),
      "servers = {} has no effect: sync = {} has none. Leave it out.", config.servers.value_or(0),
      config.strategy.name());
  if (!any([](const Capabilities& c) { return !c.needs_servers; }))
    unused(config, "algorithm", "with servers there are no collectives to choose for");
  if (is_spread(config)) check_spread(config, strategies);
  if (has_pipeline(config)) check_pipeline(config);
  if (has_tensor(config)) check_tensor(config);
  for (const Strategy& strategy : strategies) check_strategy(config, strategy);
  if (config.balance) check_balance(config, strategies);
  if (config.sync_bn) check_sync_bn(config, strategies);
  check_batch_schedule(config, strategies);
}

void settle_strategies(TrainConfig& config) {
  std::vector<Strategy> strategies{config.strategy};
  if (has_phases(config)) {
    check_phases(config);
    strategies.push_back(*config.then);
    require(config.on_loss != "continue" || can_change_workers(config),
            "on-loss = continue changes to then = {} without the lost workers, from a checkpoint "
            "and by a graph for any number of them. Set checkpoint-every, and a graph with a name, "
            "or leave on-loss out.",
            config.then->name());
  } else {
    unused(config, "at", "then names no other way");
  }
  check_strategies(config, strategies);
  if (!config.servers) config.servers = needs_servers(config) ? 1 : 0;
}

void check_portions(const TrainConfig& config) {
  if (has_pipeline(config)) return;  // check_pipeline() has done it
  for (const std::string& name : pipeline_details())
    unused(config, name, "pipeline is 1, and each worker has the whole model");
  const std::int64_t groups = groups_of(config);
  const std::string_view who = has_tensor(config) ? "group" : "worker";
  require(config.batch >= groups,
          "batch {} is smaller than {}s {}: each {} needs a sample of every batch. Raise batch, or "
          "lower workers.",
          config.batch, who, groups, who);
  const std::int64_t part = config.batch / groups;
  require(config.accumulate <= part,
          "accumulate {} cannot cut up a {}'s part of a batch, which has {} samples (batch {} / "
          "{}s {}). Lower accumulate, or raise batch.",
          config.accumulate, who, part, config.batch, who, groups);
}

void check_optimizer(const TrainConfig& config) {
  if (config.optimizer == "adam" || config.optimizer == "adamw" || config.optimizer == "lamb") {
    unused(config, "momentum", fmt::format("{} has a momentum of its own", config.optimizer));
  }
  if (!config.nesterov) return;
  require(config.optimizer == "sgd", "nesterov is a kind of sgd's momentum, not of {}'s.",
          config.optimizer);
  require(config.momentum > 0, "nesterov needs a momentum above 0.");
}

// Gradients of fp16 become infinite now and then, until the loss is scaled as it should be.
void check_precision(const TrainConfig& config) {
  if (config.precision != "fp16")
    return unused(config, "loss-scale", "only with precision = fp16 the loss is scaled");
  for (const SettingValue& value : values_of(config))
    require(value.setting->name != "non-finite" || value.text == "skip",
            "precision = fp16 finds out how far the loss can be scaled by steps whose gradients "
            "are infinite, and leaves them out; non-finite = {} would not. Leave it out, or train "
            "with precision = bf16.",
            value.text);
}

// A model that there is not is refused where it is made.
void check_model(const TrainConfig& config) {
  for (const models::ModelInfo& model : models::models()) {
    if (config.model != model.name) continue;
    const auto because = [&](const char* what) {
      return fmt::format("model {} has {} of its own", model.name, what);
    };
    if (!model.width) unused(config, "width", because("widths"));
    if (!model.depth) unused(config, "depth", because("a depth"));
    if (!model.stem) unused(config, "stem", "it is how a ResNet begins, and " + because("a begin"));
    if (!model.heads) unused(config, "heads", fmt::format("model {} has none", model.name));
    if (!model.dropout) unused(config, "dropout", fmt::format("model {} has none", model.name));
    require(model.text || !data::is_text(config.data),
            "model = {} takes images, and data = {} is text. Give model = gpt or lstm.", model.name,
            config.data);
    require(!model.text || data::is_text(config.data),
            "model = {} takes text, and data = {} is none. Give data = text:PATH.", model.name,
            config.data);
  }
}

void check_offload(const TrainConfig& config) {
  if (config.offload == "none") return unused(config, "offload-folder", "offload is none");
  require(
      !offloads_optimizer(config) || !needs_servers(config),
      "offload = {}: with sync = {} it is the servers that keep the optimizer's state. Leave it "
      "out, or give offload = activations.",
      config.offload, config.strategy.name());
  require(
      !offloads_optimizer(config) || config.optimizer != "sgd" || config.momentum > 0,
      "offload = {}: sgd without momentum keeps nothing that could lie on a disk. Leave it out, "
      "or give offload = activations.",
      config.offload);
  require(!offloads_activations(config) || config.pipeline == 1,
          "offload = {}: activations of a pipeline are sent on as they are. Give recompute, which "
          "keeps fewer of them, or offload = optimizer.",
          config.offload);
}

void check_schedule(const TrainConfig& config) {
  const auto because = [&](const char* of) {
    return fmt::format("the schedule is {}, not {}", config.schedule, of);
  };
  if (config.schedule != "step") {
    unused(config, "decay-every", because("step"));
    unused(config, "decay-factor", because("step"));
  }
  if (config.schedule != "power") {
    unused(config, "eta-min", because("power"));
    unused(config, "power", because("power"));
  }
  if (config.lr_scale == "none") unused(config, "base-batch", "lr-scale is none");
}

// What is for images has no effect on text, and the other way round.
void check_text(const TrainConfig& config) {
  const bool is_text = data::is_text(config.data);
  std::vector<std::string_view> names{"context", "tokenizer", "text-test", "temperature", "top-k"};
  if (is_text) {
    names = {"classes"};
    for (const auto& setting : settings())
      if (setting.group == "Images") names.push_back(setting.name);
  }
  for (const std::string_view name : names)
    unused(config, name, fmt::format("data is {}, {} text", config.data, is_text ? "a" : "no"));
  if (data::vocabulary_to_train(config.tokenizer) > 0)
    require(config.init.empty(),
            "tokenizer = {} would be a new one, whose tokens mean something else than those that "
            "the weights of init = {} were trained on. Give the file of theirs: the run's "
            "tokenizer.model.",
            config.tokenizer, config.init);
}

void check_data(const TrainConfig& config) {
  if (config.augment_shift == 0) unused(config, "augment-fill", "augment-shift is 0");
  for (const data::DatasetInfo& known : data::datasets())
    if (config.data == known.name)
      unused(config, "data-threads", fmt::format("data is {}, and no image files", config.data));
  if (config.data == "synthetic") {
    parse_shape(config.synthetic_shape);
    unused(config, "normalise", "data is synthetic, whose values are no pixels");
    return;
  }
  for (const auto& setting : settings()) {
    if (setting.name.starts_with("synthetic-")) {
      unused(config, setting.name, fmt::format("data is {}, not synthetic", config.data));
    }
  }
}

// What counts the tests between has some to count.
void check_tests(const TrainConfig& config) {
  if (data::is_text(config.data))
    unused(config, "validation",
           "data is a text, whose samples begin at other places in each epoch, so that none can be "
           "set aside; text-test is the share that no sample is trained on");
  if (config.eval_every.kind != Every::Kind::never) return;
  constexpr std::string_view kNoTests = "eval-every is never, and there are no tests between";
  for (const char* name : {"validation", "patience", "keep-best"}) unused(config, name, kNoTests);
}

double usual_learning_rate(const std::string& optimizer) {
  if (optimizer == "sgd") return 0.05;
  if (optimizer == "lars") return 1;       // times a ratio of about 0.001
  if (optimizer == "lamb") return 0.01;    // of a tensor's norm
  if (optimizer == "asup") return 0.0003;  // momentum makes it ten times as much
  return 0.001;
}

void fill_in(TrainConfig& config) {
  if (!config.lr) config.lr = usual_learning_rate(config.optimizer);
  if (!config.epochs && !config.steps) config.epochs = 5;
  if (is_spread(config)) config.device = "cpu";
}

}  // namespace

std::vector<std::int64_t> parse_shape(const std::string& text) {
  std::vector<std::int64_t> shape;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 1 || size > 4096) break;
    shape.push_back(size);
    at = stop == end ? end : (*stop == 'x' && stop + 1 < end ? stop + 1 : nullptr);
    if (!at) break;
  }
  require(at == end && shape.size() == 3,
          "synthetic-shape: '{}' is not channels x height x width, like 3x32x32, each 1 … 4096.",
          text);
  return shape;
}

TrainConfig resolve(TrainConfig config) {
  settle_strategies(config);
  check_portions(config);
  check_model(config);
  check_optimizer(config);
  check_precision(config);
  check_schedule(config);
  check_data(config);
  check_text(config);
  check_tests(config);
  check_offload(config);
  fill_in(config);
  return config;
}

}  // namespace asup::train
