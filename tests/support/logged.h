// What asup logs.
#pragma once

#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>

#include "asup/base/log.h"

namespace asup::testing {

// All that is logged while `action` runs, and shown too.
template <typename Action>
std::string logged(const Action& action) {
  std::ostringstream text;
  log().sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  action();
  log().sinks().pop_back();
  return text.str();
}

}  // namespace asup::testing
