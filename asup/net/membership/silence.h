// How long the host at the other end of a TCP connection has left bytes unacknowledged. Its kernel
// acknowledges also where the process there is stopped, and where nobody reads. Values only.
#pragma once

#include <optional>

#include "asup/base/clock.h"

namespace asup::net {

class Silence {
 public:
  // Since the host last acknowledged anything, or was first found to owe it; zero where nothing
  // waits to be. needs: asked every second or so, lest bytes that were sent just now after a long
  // rest look old.
  Seconds of(int socket, Clock::time_point now);

 private:
  std::optional<Clock::time_point> since_;
};

}  // namespace asup::net
