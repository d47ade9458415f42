// Configurations as people say them.
#pragma once

#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/train/resolve.h"
#include "asup/train/settings.h"
#include "tests/support/thrown.h"

namespace asup::train::testing {

using Sayings = std::vector<std::pair<std::string, std::string>>;

inline config::Given given(const Sayings& sayings) {
  config::Given given;
  given.begin_source();
  for (const auto& [name, value] : sayings) given.say(name, value, "--" + name);
  return given;
}

inline TrainConfig said(const Sayings& sayings) { return config_from(given(sayings)); }

// Why it is refused, or "".
inline std::string complaint(const Sayings& sayings) {
  return asup::testing::message_of<BadInput>([&] { resolve(said(sayings)); });
}

}  // namespace asup::train::testing
