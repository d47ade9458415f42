#include "asup/ps/server_setup.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/json.h"

namespace asup::ps {
namespace {

using nlohmann::json;

// What no model and no training has more of: products of them are numbers, too.
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 44;
constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 31;  // steps; samples of one

json to_json(const pace::Options& pace) {
  return {{"kind", pace::name_of(pace.kind)},
          {"staleness", pace.staleness},
          {"backup", pace.backup},
          {"gather", pace.gather},
          {"stale_lr", pace.stale_lr},
          {"non_finite", asup::name_of(pace.non_finite)},
          {"freeze", pace.freeze},
          {"leaves", pace.leaves}};
}

pace::Options pace_of(const json& from) {
  pace::Options pace;
  pace.kind = pace::kind_of(from.at("kind").get<std::string>());
  pace.staleness = from.at("staleness");
  pace.backup = whole_in<int>(from, "backup");
  pace.gather = whole_in<int>(from, "gather");
  pace.stale_lr = from.at("stale_lr");
  pace.non_finite = pace::non_finite_of(from.at("non_finite").get<std::string>());
  pace.freeze = from.at("freeze");
  pace.leaves = from.at("leaves");
  return pace;
}

json to_json(const pace::Workload& work) {
  return {{"steps", work.steps},           {"first_step", work.first_step},
          {"batch", work.batch},           {"steps_per_epoch", work.steps_per_epoch},
          {"last_batch", work.last_batch}, {"sync points", work.sync_points},
          {"can_leave", work.can_leave},   {"grain", work.grain}};
}

pace::Workload work_of(const json& from) {
  pace::Workload work;
  const auto whole = [&](const char* key) {
    return whole_in<std::uint64_t>(from, key, 0, kMostCounted);
  };
  work.steps = whole("steps");
  work.first_step = whole("first_step");
  work.batch = whole("batch");
  work.steps_per_epoch = whole("steps_per_epoch");
  work.last_batch = whole("last_batch");
  work.sync_points = wholes_in<std::uint64_t>(from, "sync points");
  work.can_leave = from.at("can_leave");
  work.grain = whole("grain");
  return work;
}

json to_json(const Layout& layout) {
  json tensors = json::array();
  for (const auto& [index, name, range] : layout.tensors)
    tensors.push_back({name, range.begin, range.end});
  return {{"elements", layout.elements}, {"tensors", tensors}};
}

Range range_of(const json& begin, const json& end) {
  return {whole_of<std::uint64_t>(begin, "begin"), whole_of<std::uint64_t>(end, "end")};
}

Layout layout_of(const json& from) {
  Layout layout;
  layout.elements = whole_in<std::uint64_t>(from, "elements", 0, kMostElements);
  for (const json& tensor : from.at("tensors"))
    layout.tensors.push_back(
        {layout.tensors.size(), tensor.at(0), range_of(tensor.at(1), tensor.at(2))});
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

bool needs_whole_tensors(const ServerSetup& setup) {
  return std::ranges::any_of(setup.rules, kernels::needs_whole_tensors);
}

void require_sense_of_groups(const ServerSetup& setup) {
  require(!setup.rules.empty(), "there is no update rule");
  for (const kernels::Rule& rule : setup.rules) kernels::require_valid(rule);
  require(setup.groups.empty() || setup.groups.size() == setup.layout.tensors.size(),
          "the groups of {} parameters are told, and there are {}", setup.groups.size(),
          setup.layout.tensors.size());
  for (const std::uint32_t group : setup.groups)
    require(group < setup.rules.size(), "a parameter is of group {}, and there are {}", group,
            setup.rules.size());
}

void require_sense_of_code(const ServerSetup& setup) {
  const bool has_code = setup.code != kernels::Code::none;
  require(has_code != setup.coded.empty(), "{} tensors travel in the code {}", setup.coded.size(),
          kernels::name_of(setup.code));
  for (std::size_t i = 0; i < setup.coded.size(); ++i)
    require(setup.coded[i] < setup.layout.tensors.size() &&
                (i == 0 || setup.coded[i - 1] < setup.coded[i]),
            "the tensors that travel in a code are not in order, or not of the {} that there are",
            setup.layout.tensors.size());
  require(!has_code || std::ranges::none_of(setup.rules,
                                            [](const kernels::Rule& rule) {
                                              return rule.kind == kernels::Rule::Kind::merge;
                                            }),
          "models that are merged do not travel in a code");
}

void require_sense_of_parts(const ServerSetup& setup, int workers) {
  require_sense(setup.teams, workers, setup.parts.size());
  std::uint64_t end = 0;
  for (const Range& part : setup.parts) {
    require(part.begin == end && !part.empty(),
            "a part of the model is elements {} to {}, and the one before ends at {}", part.begin,
            part.end, end);
    end = part.end;
  }
  require(setup.parts.empty() || end == setup.layout.elements,
          "the parts of the model end at element {} of {}", end, setup.layout.elements);
  for (const std::uint32_t copy : setup.copies)
    require(copy < setup.layout.tensors.size(), "a copy is tensor {} of {}", copy,
            setup.layout.tensors.size());
  require(setup.parts.empty() || setup.code == kernels::Code::none,
          "parts of a model do not travel in a code");
}

json to_json(const std::vector<Range>& ranges) {
  json ends = json::array();
  for (const Range& range : ranges) ends.push_back({range.begin, range.end});
  return ends;
}

std::vector<Range> ranges_of(const json& from) {
  std::vector<Range> ranges;
  for (const json& range : from) ranges.push_back(range_of(range.at(0), range.at(1)));
  return ranges;
}

kernels::Code code_of(const std::string& name) {
  using enum kernels::Code;
  for (const kernels::Code code : {none, bf16, f16, int8, int4, onebit})
    if (kernels::name_of(code) == name) return code;
  throw BadInput(fmt::format("'{}' is no code that gradients travel in", name));
}

std::vector<std::string> texts_of(const std::vector<kernels::Rule>& rules) {
  std::vector<std::string> texts;
  for (const kernels::Rule& rule : rules) texts.push_back(kernels::describe(rule));
  return texts;
}

std::vector<kernels::Rule> rules_of(const json& from) {
  std::vector<kernels::Rule> rules;
  for (const json& rule : from) rules.push_back(kernels::parse_rule(rule.get<std::string>()));
  return rules;
}

// Of rules or of groups.
std::string difference_of_groups(const ServerSetup& there, const ServerSetup& here) {
  if (there.rules.size() != here.rules.size())
    return fmt::format("the optimizer has {} groups of parameters there and {} here",
                       there.rules.size(), here.rules.size());
  for (std::size_t i = 0; i < there.rules.size(); ++i)
    if (there.rules[i] != here.rules[i])
      return fmt::format("the optimizer{} is '{}' there and '{}' here",
                         there.rules.size() > 1 ? fmt::format("'s group {}", i) : "",
                         kernels::describe(there.rules[i]), kernels::describe(here.rules[i]));
  for (std::size_t i = 0; i < there.layout.tensors.size(); ++i)
    if (group_of(there, i) != group_of(here, i))
      return fmt::format("{} is in the optimizer's group {} there and {} here",
                         there.layout.tensors[i].name, group_of(there, i), group_of(here, i));
  return "";
}

}  // namespace

std::vector<Range> parts_of(const ServerSetup& setup) {
  return setup.parts.empty() ? std::vector<Range>{{0, setup.layout.elements}} : setup.parts;
}

std::size_t group_of(const ServerSetup& setup, std::size_t tensor) {
  return setup.groups.empty() ? 0 : setup.groups[tensor];
}

std::size_t state_slots(const ServerSetup& setup) {
  std::size_t most = 0;
  for (const kernels::Rule& rule : setup.rules) most = std::max(most, kernels::state_slots(rule));
  return most + (gathers_gradients(setup) ? 1 : 0);
}

bool gathers_gradients(const ServerSetup& setup) {
  return std::ranges::any_of(setup.rules, kernels::gathers_gradients);
}

void require_sense(const ServerSetup& setup, int workers, int servers) {
  require(!setup.layout.tensors.empty(), "there is no parameter to share");
  require_sound(setup.layout);
  require_sense_of_groups(setup);
  require_sense_of_code(setup);
  require_sense_of_parts(setup, workers);
  pace::require_sense(setup.pace, Teams(setup.teams, workers).count());
  if (setup.work) pace::require_sense(*setup.work);
  require(setup.compensation >= 0, "delay compensation of {:g}: lambda cannot be negative",
          setup.compensation);
  shards_of(setup, servers);
}

std::vector<Range> shards_of(const ServerSetup& setup, int servers) {
  require(servers >= 1, "{} servers: at least one must keep the parameters", servers);
  const bool whole_tensors = needs_whole_tensors(setup);
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
               {"rules", texts_of(setup.rules)},
               {"groups", setup.groups},
               {"parts", to_json(setup.parts)},
               {"teams", setup.teams},
               {"copies", setup.copies},
               {"pace", to_json(setup.pace)},
               {"compensation", setup.compensation},
               {"with_state", setup.with_state},
               {"code", kernels::name_of(setup.code)},
               {"coded", setup.coded}};
  if (setup.work) text["work"] = to_json(*setup.work);
  return text.dump();
}

ServerSetup parse_setup(std::string_view text) try {
  const json from = parse_json(text);
  ServerSetup setup;
  setup.layout = layout_of(from.at("layout"));
  setup.rules = rules_of(from.at("rules"));
  setup.groups = wholes_in<std::uint32_t>(from, "groups");
  setup.parts = ranges_of(from.at("parts"));
  setup.teams = wholes_in<std::uint32_t>(from, "teams");
  setup.copies = wholes_in<std::uint32_t>(from, "copies");
  setup.pace = pace_of(from.at("pace"));
  setup.compensation = from.at("compensation");
  setup.with_state = from.at("with_state");
  setup.code = code_of(from.at("code").get<std::string>());
  setup.coded = wholes_in<std::uint32_t>(from, "coded");
  if (from.contains("work")) setup.work = work_of(from.at("work"));
  return setup;
} catch (const json::exception& error) {
  throw BadInput(fmt::format("not a setup of a parameter server: {}", error.what()));
}

std::string difference(const ServerSetup& there, const ServerSetup& here) {
  if (there.layout != here.layout) return difference(there.layout, here.layout);
  if (auto groups = difference_of_groups(there, here); !groups.empty()) return groups;
  const json a = json::parse(to_text(there)), b = json::parse(to_text(here));
  for (const auto& [key, value] : a.items())
    if (!b.contains(key) || b.at(key) != value)
      return fmt::format("{} is {} there and {} here", key, value.dump(),
                         b.contains(key) ? b.at(key).dump() : "nothing");
  return b.size() == a.size() ? "" : "one has work and the other has none";
}

}  // namespace asup::ps
