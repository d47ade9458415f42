#include "asup/sync/averaging/local_sgd.h"

#include <fmt/format.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/sync/averaging/local_update_replica.h"

namespace asup {
namespace {

using config::field;

// Where merges are counted in steps, not in seconds.
const std::vector<config::Setting>& settings_of_steps() {
  static const std::vector<config::Setting> rows{
      {"every", field<&LocalSgd::every>(),
       "steps between two merges; auto: as the loss and the learning rate allow"},
      {"first-every",
       field<&LocalSgd::first_every>(),
       "every = auto: steps between two merges at first",
       {1, 1e9}},
      {"every-seconds",
       field<&LocalSgd::every_seconds>(),
       "every = auto: seconds after which they are chosen anew",
       {0, 1e6, true, false}},
      {"local-after", field<&LocalSgd::local_after>(),
       "models are merged after every step at first, for so many steps or such a share of the run, "
       "like 30%"},
      {"jitter-ms",
       field<&LocalSgd::jitter_ms>(),
       "a merge is put off by up to so many milliseconds, at random, so that jobs that share links "
       "do not all send at once",
       {0, 1e4}}};
  return rows;
}

void check_options(const LocalSgd& options) {
  check_timed_rounds(options.rounds);
  require(options.exchange_dtype == ExchangeDtype::f32 || !options.rounds.any(),
          "exchange-dtype is for merges that all workers take part in, and with round-seconds some "
          "may come late. Leave one of them out.");
  if (!options.every.adaptive)
    for (const char* name : {"first-every", "every-seconds"})
      config::require_usual(settings_of_steps(), options, name, "every is a number of steps");
  if (options.every.steps == 1 && !options.every.adaptive)
    config::require_usual(settings_of_steps(), options, "local-after",
                          "every = 1 merges models after every step anyway");
}

std::vector<config::Section> sections_of(LocalSgd& options) {
  std::vector<config::Section> sections{{settings_of_timed_rounds(), &options.rounds}};
  if (!options.rounds.any()) sections.push_back({settings_of_steps(), &options});
  return sections;
}

Capabilities capabilities_of(const LocalSgd& options) {
  Capabilities capabilities{.exchanges = Exchange::models,
                            .survives_loss = true,
                            .skips_non_finite = options.non_finite != NonFinite::apply};
  describe_rounds(options.rounds, capabilities);
  return capabilities;
}

MadeReplica make(const LocalSgd& options, const ReplicaContext& context) {
  require(!options.local_after.is_share || context.progress.steps > 0,
          "local-after = {} is a share of a run whose length is not known here: give a number of "
          "steps",
          options.local_after.to_text());
  LocalOptions local;
  if (options.every.adaptive)
    local.adaptive = {options.first_every, Seconds(options.every_seconds)};
  local.every = options.rounds.any() ? 0 : options.every.steps;
  local.local_after = std::max<std::int64_t>(
      0, options.local_after.steps(context.progress.steps) - context.progress.done);
  local.state = options.merge_state;
  local.code = code_of(options.exchange_dtype);
  local.jitter = Seconds(options.jitter_ms / 1000);
  local.observed = context.observed;
  return sync::as_made(
      make_local_replica(context.communicator, context.model, context.optimizer, local),
      options.non_finite);
}

}  // namespace

MergeInterval MergeInterval::automatic() {
  MergeInterval interval;
  interval.adaptive = true;
  return interval;
}

std::optional<MergeInterval> MergeInterval::from_text(std::string_view text) {
  if (text == "auto") return automatic();
  const auto steps = number_in<std::int64_t>(text);
  if (!steps || *steps < 1 || *steps > 1'000'000'000) return std::nullopt;
  return MergeInterval(*steps);
}

std::string MergeInterval::to_text() const { return adaptive ? "auto" : fmt::format("{}", steps); }

const Way& way_of(const LocalSgd&) {
  static const Way way(WayOf<LocalSgd>{
      .name = "local",
      .group = "Local and DiLoCo",
      .summary = "local SGD: workers step alone, and models are averaged now and then",
      .example = "--sync local --every 16",
      .settings = {{"merge-state", field<&LocalSgd::merge_state>(),
                    "the optimizer's state is averaged with the models, kept by each worker, or "
                    "reset"},
                   {"exchange-dtype", field<&LocalSgd::exchange_dtype>(),
                    "what models travel as: their differences from the last merge, but for f32; of "
                    "int4, what is lost is kept for the next merge. The optimizer's state travels "
                    "as bf16 then"},
                   non_finite_setting<LocalSgd>()},
      .nested = {{"", "", settings_of_timed_rounds()},
                 {"round-seconds", "none", settings_of_steps()}},
      .sections = sections_of,
      .capabilities = capabilities_of,
      .check = check_options,
      .make = make});
  return way;
}

}  // namespace asup
