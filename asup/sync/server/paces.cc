#include "asup/sync/server/paces.h"

#include <array>

namespace asup {
namespace {

using config::field;
using Settings = std::span<const config::Setting>;

const std::vector<config::Setting>& settings_of(const Bsp&) {
  static const std::vector<config::Setting> rows{
      {"backup",
       field<&Bsp::backup>(),
       "pace bsp: workers that a step does not wait for: a batch is shared by the first of the "
       "others",
       {0, 4095}}};
  return rows;
}

const std::vector<config::Setting>& settings_of(const Ssp&) {
  static const std::vector<config::Setting> rows{
      {"staleness",
       field<&Ssp::staleness>(),
       "pace ssp: steps that a worker may be ahead of the slowest, each counting its own",
       {1, 1e6}}};
  return rows;
}

const std::vector<config::Setting>& settings_of(const Asp&) {
  static const std::vector<config::Setting> none;
  return none;
}

const std::vector<config::Setting>& settings_of(const KAsync&) {
  static const std::vector<config::Setting> rows{
      {"gather",
       field<&KAsync::gather>(),
       "pace kasync: pushes of an update, the next that come",
       {1, 4096}}};
  return rows;
}

const std::vector<config::Setting>& settings_of(const Adaptive&) {
  static const std::vector<config::Setting> rows{
      {"freeze-pace", field<&Adaptive::freeze_pace>(),
       "an adaptive pace keeps its first choice, for experiments"}};
  return rows;
}

void put(const Bsp& row, ps::pace::Options& options) {
  options.kind = ps::pace::Kind::bsp;
  options.backup = static_cast<int>(row.backup);
}
void put(const Ssp& row, ps::pace::Options& options) {
  options.kind = ps::pace::Kind::ssp;
  options.staleness = static_cast<double>(row.staleness);
}
void put(const Asp&, ps::pace::Options& options) { options.kind = ps::pace::Kind::asp; }
void put(const KAsync& row, ps::pace::Options& options) {
  options.kind = ps::pace::Kind::kasync;
  options.gather = static_cast<int>(row.gather);
}
void put(const Adaptive& row, ps::pace::Options& options) {
  options.kind = ps::pace::Kind::adaptive;
  options.freeze = row.freeze_pace;
}

// In the order of the variant.
struct PaceRow {
  std::string_view name;
  Pace usual;
};
std::span<const PaceRow> table() {
  static const std::array rows{PaceRow{"bsp", Bsp{}}, PaceRow{"ssp", Ssp{}}, PaceRow{"asp", Asp{}},
                               PaceRow{"kasync", KAsync{}}, PaceRow{"adaptive", Adaptive{}}};
  return rows;
}

}  // namespace

std::optional<Pace> Pace::from_text(std::string_view text) {
  for (const PaceRow& each : table())
    if (each.name == text) return each.usual;
  return std::nullopt;
}

std::string_view Pace::name() const { return table()[row.index()].name; }

config::Section Pace::section() {
  return std::visit(
      [](auto& chosen) {
        return config::Section{settings_of(chosen), &chosen};
      },
      row);
}

ps::pace::Options Pace::options() const {
  ps::pace::Options options;
  std::visit([&](const auto& chosen) { put(chosen, options); }, row);
  return options;
}

std::vector<NestedSettings> settings_of_paces() {
  std::vector<NestedSettings> all;
  for (const PaceRow& each : table())
    std::visit(
        [&](const auto& chosen) {
          all.push_back({"pace", each.name, settings_of(chosen)});
        },
        each.usual.row);
  return all;
}

}  // namespace asup
