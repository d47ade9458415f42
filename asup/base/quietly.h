// For destructors. Safe from any thread.
#pragma once

#include <exception>

#include "asup/base/log.h"

namespace asup {

// Does it, and only notes what it throws: a device that has failed fails in all that comes after,
// and the first exception, which is under way then, is the one that tells why.
template <typename Action>
void quietly(const Action& action) noexcept {
  try {
    action();
  } catch (const std::exception& error) {
    log().debug("while another fault ends this: {}", error.what());
  }
}

}  // namespace asup
