// The table of ways of training in parallel. Safe from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "asup/sync/way.h"

namespace asup {

// In the order of the help; the first is the usual one.
std::span<const Way* const> ways();
std::vector<std::string> names_of_ways();
// Null where there is none of this name.
const Way* find_way(std::string_view name);

// One setting that some ways have, and where.
struct WaySetting {
  const config::Setting* setting = nullptr;
  const Way* way = nullptr;
  std::string_view choice{}, value{};  // it belongs to this value of another setting; "": to all
};
// Of all ways: a name may be there several times, once for each way that has it.
std::span<const WaySetting> settings_of_ways();
std::vector<std::string> names_of_way_settings();

}  // namespace asup
