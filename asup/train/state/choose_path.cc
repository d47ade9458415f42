#include "asup/train/state/choose_path.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "asup/base/error.h"
#include "asup/collective/text_exchange.h"
#include "asup/config/field_or.h"
#include "asup/kernels/instruction_set.h"
#include "asup/train/device.h"
#include "asup/train/pipeline_settings.h"
#include "asup/train/state/inputs.h"

namespace asup::train {
namespace {

using config::kAuto;

// On a GPU nothing is measured but what precision gains, and with precision = auto what channels
// last do: tensor cores take them as they are.
models::WantedPath wanted_by(const TrainConfig& config, const torch::Device& device) {
  models::WantedPath wanted;
  if (config.conv_path != kAuto)
    wanted.convolution = models::convolution_path_from(config.conv_path);
  if (config.precision != kAuto) wanted.precision = precision_from(config.precision);
  if (config.memory_format != kAuto)
    wanted.channels_last = config.memory_format == "channels-last";
  else if (!device.is_cpu() && (config.tf32 || wanted.precision))
    wanted.channels_last = config.tf32 || *wanted.precision != Precision::fp32;
  else if (device.is_cpu() && wanted.convolution)
    wanted.channels_last = false;
  return wanted;
}

// A run that is resumed goes on as it was, but for what is said anew. Weights lie as before: some
// replicas keep state in the order of memory.
models::ComputePath as_before(const TunedChoices& choices, const TrainConfig& config) {
  models::ComputePath path = models::compute_path_from(choices.compute_path);
  if (config.conv_path != kAuto) path.convolution = models::convolution_path_from(config.conv_path);
  return path;
}

models::ComputeChoice measure(const TrainingContext& context, const models::WantedPath& wanted) {
  const TrainConfig& config = context.config;
  const data::Batch sample = first_samples(context);
  if (!config.sync_bn) return models::measure_compute_path(*context.model, sample, wanted);
  // Each rank measures as often as it likes, which is no time to sum statistics with the others.
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const torch::Tensor before = random.get_state();
  const auto model = make_model(config, *context.train);
  random.set_state(before);
  model->to(context.device);
  return models::measure_compute_path(*model, sample, wanted);
}

std::string key_of(const TrainingContext& context, const Job& job) {
  std::set<std::string> hosts;
  for (const auto& member : job.roster().workers()) hosts.insert(member.hostname);
  return compute_path_key(
      context.config, fmt::format("{}", fmt::join(hosts, " ")), context.device.str(), TORCH_VERSION,
      fmt::format("{}", fmt::join(context.train->input_shape(), "x")), context.choices.threads);
}

// Another version may have remembered one that this does not know.
bool is_path(const std::string& text) try {
  models::compute_path_from(text);
  return true;
} catch (const BadInput&) {
  return false;
}

// The remembered one, or the fastest.
PathChoice find_fastest(const TrainingContext& context, const models::WantedPath& wanted,
                        const std::string& key) {
  Communicator& control = *context.control;
  const auto cache = ComputePathCache::of_user();
  const bool first = control.rank() == 0;
  auto known = first ? cache.find(key) : std::nullopt;
  if (known && !is_path(known->path)) known.reset();
  const std::string last_time = broadcast_text(control, known ? known->path : "");
  if (!last_time.empty())
    return {models::compute_path_from(last_time),
            known ? fmt::format("{}, as measured last time", known->note) : ""};
  // All ranks measure at once, as they will work at once.
  const models::ComputeChoice choice = measure(context, wanted);
  forget_peak_device_memory(context.device);  // of ways that are not taken
  const std::string name = broadcast_text(control, models::name_of(choice.path));
  if (first) cache.remember(key, {name, choice.describe()});
  return {models::compute_path_from(name), choice.describe()};
}

PathChoice find_path(const TrainingContext& context, const Job& job) {
  const TrainConfig& config = context.config;
  if (context.resumed) {
    const auto path = as_before(context.resumed->choices, config);
    return {path, fmt::format("computed by {}, as before", models::name_of(path))};
  }
  const models::WantedPath wanted = wanted_by(config, context.device);
  // Workers may be on devices of several kinds, and ask the same question all the same.
  const auto paths = models::paths_for(*context.model, wanted);
  const bool has_choice = broadcast_text(*context.control, paths.size() > 1 ? "yes" : "") == "yes";
  if (has_choice) return find_fastest(context, wanted, key_of(context, job));
  const std::string only = broadcast_text(*context.control, models::name_of(paths.front()));
  return {models::compute_path_from(only),
          config.conv_path == kAuto ? "" : fmt::format("computed by {}, as set", only)};
}

}  // namespace

data::Batch first_samples(const TrainingContext& context) {
  const auto count = std::min<std::int64_t>(samples_at_a_time(context.config),
                                            static_cast<std::int64_t>(context.train->size()));
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  const data::Batch batch = context.train->get(indices);
  return {batch.input.to(context.device), batch.target.to(context.device)};
}

PathChoice choose_path(TrainingContext& context, const Job& job) {
  PathChoice choice = find_path(context, job);
  if (context.config.precision == kAuto && choice.path.precision == Precision::fp32 &&
      context.device.is_cpu() && !kernels::multiplies_bf16())
    choice.note += fmt::format("{}fp32, since this processor does not multiply bf16 by itself",
                               choice.note.empty() ? "computed in " : "; ");
  models::lay_out(*context.model, choice.path.channels_last);
  return choice;
}

}  // namespace asup::train
