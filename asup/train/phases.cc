#include "asup/train/phases.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "asup/base/error.h"
#include "asup/train/settings.h"
#include "asup/train/step_or_share.h"
#include "asup/train/strategy.h"

namespace asup::train {
namespace {

constexpr const char* kStall = "stall";

// Settings of some ways alone.
struct OfWays {
  std::string_view setting;
  std::array<std::string_view, 5> ways;
};
constexpr std::array kOfWays = std::to_array<OfWays>({
    {"pace", {"server", "asup"}},
    {"staleness", {"server", "asup"}},
    {"backup", {"server", "asup"}},
    {"compensation", {"server", "asup"}},
    {"stale-lr", {"server", "asup"}},
    {"non-finite", {"server", "asup"}},
    {"freeze-pace", {"server", "asup"}},
    {"evaluate-with", {"server", "asup"}},
    {"every", {"local", "diloco", "gossip", "adpsgd"}},
    {"local-after", {"local"}},
    {"merge-state", {"local"}},
    {"graph", {"gossip", "adpsgd"}},
    {"outer-lr", {"diloco"}},
    {"outer-momentum", {"diloco"}},
    {"outer-overlap", {"diloco"}},
    {"fragments", {"diloco"}},
    {"exchange-dtype", {"diloco"}},
    {"jitter-ms", {"local", "diloco", "gossip"}},
    {"round-seconds", {"local", "adpsgd"}},
    {"merge-deadline", {"local", "adpsgd"}},
    {"balance", {"allreduce"}},
    {"buffers", {"allreduce"}},
    {"bucket-mb", {"allreduce", "server", "asup"}},
    {"algorithm", {"allreduce", "local", "diloco", "gossip", "adpsgd"}},
});

// Rounds of a given time do without some that are of other rounds.
bool is_of(const OfWays& row, const std::string& way, bool timed) {
  const bool is_of_steps = row.setting == "every" || row.setting == "jitter-ms";
  if (way == "local" && timed && is_of_steps) return false;
  return std::find(row.ways.begin(), row.ways.end(), way) != row.ways.end();
}

}  // namespace

TrainConfig of_phase(const TrainConfig& config, Phase phase) {
  if (!has_phases(config)) return config;
  TrainConfig result = config;
  const std::string& other = phase == Phase::first ? config.then : config.sync;
  result.sync = phase == Phase::first ? config.sync : config.then;
  const bool timed = config.round_seconds > 0;
  for (const OfWays& row : kOfWays) {
    if (is_of(row, result.sync, timed) || !is_of(row, other, timed)) continue;
    const Setting& setting = *find_setting(row.setting);
    assign_text(result, setting, text_of(TrainConfig{}, setting), row.setting);
  }
  return result;
}

std::optional<std::int64_t> switch_step(const TrainConfig& config, const RunLength& length) {
  if (!has_phases(config) || config.at == kStall) return std::nullopt;
  const std::int64_t step = step_or_share_in(config.at)->steps(length.steps);
  require(
      step > 0 && step < length.steps,
      "at = {} is not within the run, which has {} steps: sync = {} or then = {} would never be "
      "used. Give a step between them, a share like 80%, or stall.",
      config.at, length.steps, config.sync, config.then);
  return step;
}

TrainConfig of_phase(const TrainConfig& config, Phase phase, const RunLength& length) {
  TrainConfig result = of_phase(config, phase);
  const auto step = switch_step(config, length);
  if (phase == Phase::first && step && (config.stop_at == 0 || *step < config.stop_at))
    result.stop_at = *step;
  return result;
}

bool needs_servers(const TrainConfig& config) {
  return Strategy{.sync = config.sync}.needs_servers() ||
         Strategy{.sync = config.then}.needs_servers();
}

void check_phases(const TrainConfig& config) {
  require(config.then != config.sync,
          "then = {} is the way that the run begins with. Name another one, or leave then out.",
          config.then);
  require(config.merge == "none" && config.local_parameters.empty(),
          "with then = {}, merge = {} and local-parameters = '{}' cannot be: workers would come to "
          "the change with parameters of their own. Leave them out.",
          config.then, config.merge, config.local_parameters);
  require(config.at == kStall || step_or_share_in(config.at),
          "at = '{}' is no step, no share of the run like 80%, and not stall", config.at);
}

}  // namespace asup::train
