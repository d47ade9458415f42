#include "asup/distribute/ways.h"

#include <algorithm>
#include <array>

#include "asup/sync/averaging/ad_psgd.h"
#include "asup/sync/averaging/diloco.h"
#include "asup/sync/averaging/gossip.h"
#include "asup/sync/averaging/local_sgd.h"
#include "asup/sync/averaging/slow_mo.h"
#include "asup/sync/gradients/all_reduce.h"
#include "asup/sync/server/parameter_server.h"

namespace asup {

std::span<const Way* const> ways() {
  static const std::array rows{
      // clang-format off
      &way_of(AllReduce{}),
      &way_of(ParameterServer{}),
      &way_of(Asup{}),
      &way_of(LocalSgd{}),
      &way_of(DiLoCo{}),
      &way_of(SlowMo{}),
      &way_of(Gossip{}),
      &way_of(AdPsgd{}),
      // clang-format on
  };
  return rows;
}

std::vector<std::string> names_of_ways() {
  std::vector<std::string> names;
  for (const Way* way : ways()) names.emplace_back(way->name);
  return names;
}

const Way* find_way(std::string_view name) {
  const auto found =
      std::find_if(ways().begin(), ways().end(), [&](const Way* way) { return way->name == name; });
  return found == ways().end() ? nullptr : *found;
}

std::span<const WaySetting> settings_of_ways() {
  static const std::vector<WaySetting> all = [] {
    std::vector<WaySetting> list;
    for (const Way* way : ways()) {
      for (const auto& setting : way->settings) list.push_back({&setting, way});
      for (const NestedSettings& nested : way->nested)
        for (const auto& setting : nested.settings)
          list.push_back({&setting, way, nested.choice, nested.value});
    }
    return list;
  }();
  return all;
}

std::vector<std::string> names_of_way_settings() {
  std::vector<std::string> names;
  for (const WaySetting& each : settings_of_ways())
    if (std::find(names.begin(), names.end(), each.setting->name) == names.end())
      names.emplace_back(each.setting->name);
  return names;
}

}  // namespace asup
