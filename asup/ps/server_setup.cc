#include "asup/ps/server_setup.h"

#include <nlohmann/json.hpp>

#include "asup/base/error.h"

namespace asup::ps {
namespace {

using nlohmann::json;

json to_json(const pace::Options& pace) {
  return {{"kind", pace::name_of(pace.kind)},
          {"staleness", pace.staleness},
          {"backup", pace.backup},
          {"gather", pace.gather},
          {"stale_lr", pace.stale_lr},
          {"non_finite", pace::name_of(pace.non_finite)},
          {"freeze", pace.freeze}};
}

pace::Options pace_of(const json& from) {
  pace::Options pace;
  pace.kind = pace::kind_of(from.at("kind").get<std::string>());
  pace.staleness = from.at("staleness");
  pace.backup = from.at("backup");
  pace.gather = from.at("gather");
  pace.stale_lr = from.at("stale_lr");
  pace.non_finite = pace::non_finite_of(from.at("non_finite").get<std::string>());
  pace.freeze = from.at("freeze");
  return pace;
}

json to_json(const pace::Workload& work) {
  return {{"steps", work.steps},           {"first_step", work.first_step},
          {"batch", work.batch},           {"steps_per_epoch", work.steps_per_epoch},
          {"last_batch", work.last_batch}, {"sync points", work.sync_points}};
}

pace::Workload work_of(const json& from) {
  pace::Workload work;
  work.steps = from.at("steps");
  work.first_step = from.at("first_step");
  work.batch = from.at("batch");
  work.steps_per_epoch = from.at("steps_per_epoch");
  work.last_batch = from.at("last_batch");
  work.sync_points = from.at("sync points").get<std::vector<std::uint64_t>>();
  return work;
}

json to_json(const Layout& layout) {
  json tensors = json::array();
  for (const auto& [index, name, range] : layout.tensors)
    tensors.push_back({name, range.begin, range.end});
  return {{"elements", layout.elements}, {"tensors", tensors}};
}

Layout layout_of(const json& from) {
  Layout layout;
  layout.elements = from.at("elements");
  for (const json& tensor : from.at("tensors"))
    layout.tensors.push_back({layout.tensors.size(), tensor.at(0), {tensor.at(1), tensor.at(2)}});
  return layout;
}

std::string describe(const Layout::Tensor& tensor) {
  return fmt::format("{} with {} elements", tensor.name, tensor.range.size());
}

std::string difference(const Layout& there, const Layout& here) {
  const std::size_t both = std::min(there.tensors.size(), here.tensors.size());
  for (std::size_t i = 0; i < both; ++i)
    if (there.tensors[i] != here.tensors[i])
      return fmt::format("parameter {} is {} there and {} here", i, describe(there.tensors[i]),
                         describe(here.tensors[i]));
  if (there.tensors.size() != here.tensors.size())
    return fmt::format("there are {} parameters there and {} here", there.tensors.size(),
                       here.tensors.size());
  return fmt::format("the parameters take {} elements there and {} here", there.elements,
                     here.elements);
}

}  // namespace

void require_sense(const ServerSetup& setup, int workers, int servers) {
  require(!setup.layout.tensors.empty(), "there is no parameter to share");
  require_sound(setup.layout);
  kernels::require_valid(setup.rule);
  pace::require_sense(setup.pace, workers);
  if (setup.work) pace::require_sense(*setup.work);
  require(setup.compensation >= 0, "delay compensation of {:g}: lambda cannot be negative",
          setup.compensation);
  shards_of(setup, servers);
}

std::vector<Range> shards_of(const ServerSetup& setup, int servers) {
  require(servers >= 1, "{} servers: at least one must keep the parameters", servers);
  const bool whole_tensors = kernels::needs_whole_tensors(setup.rule);
  auto shards = cut_into_shards(setup.layout, static_cast<std::size_t>(servers), whole_tensors);
  for (const Range& shard : shards)
    require(!shard.empty(),
            "{} servers are more than the model can use: its {} parameters in {} tensors cannot be "
            "cut into as many shards{}; start fewer",
            servers, setup.layout.elements, setup.layout.tensors.size(),
            whole_tensors ? " of whole tensors" : " of at least a cache line");
  return shards;
}

std::string to_text(const ServerSetup& setup) {
  json text = {{"layout", to_json(setup.layout)},
               {"rule", kernels::describe(setup.rule)},
               {"pace", to_json(setup.pace)},
               {"compensation", setup.compensation},
               {"with_state", setup.with_state}};
  if (setup.work) text["work"] = to_json(*setup.work);
  return text.dump();
}

ServerSetup parse_setup(std::string_view text) try {
  const json from = json::parse(text);
  ServerSetup setup;
  setup.layout = layout_of(from.at("layout"));
  setup.rule = kernels::parse_rule(from.at("rule").get<std::string>());
  setup.pace = pace_of(from.at("pace"));
  setup.compensation = from.at("compensation");
  setup.with_state = from.at("with_state");
  if (from.contains("work")) setup.work = work_of(from.at("work"));
  return setup;
} catch (const json::exception& error) {
  throw BadInput(fmt::format("not a setup of a parameter server: {}", error.what()));
}

std::string difference(const ServerSetup& there, const ServerSetup& here) {
  if (there.layout != here.layout) return difference(there.layout, here.layout);
  if (there.rule != here.rule)
    return fmt::format("the optimizer is '{}' there and '{}' here", kernels::describe(there.rule),
                       kernels::describe(here.rule));
  const json a = json::parse(to_text(there)), b = json::parse(to_text(here));
  for (const auto& [key, value] : a.items())
    if (!b.contains(key) || b.at(key) != value)
      return fmt::format("{} is {} there and {} here", key, value.dump(),
                         b.contains(key) ? b.at(key).dump() : "nothing");
  return b.size() == a.size() ? "" : "one has work and the other has none";
}

}  // namespace asup::ps
