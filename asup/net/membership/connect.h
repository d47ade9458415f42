// Connecting to where somebody should listen, without blocking longer than a deadline.
#pragma once

#include <string>

#include "asup/base/clock.h"
#include "asup/base/fd.h"
#include "asup/net/membership/address.h"

namespace asup::net {

// Polls the descriptor until it is ready or the deadline passes: false. True too where it cannot be
// polled, which the next call on it will say.
bool wait_for(int fd, short events, Deadline deadline);

// A connected, non-blocking, close-on-exec socket, or none with the reason in `why`.
Fd try_connect(const SocketAddress& address, Deadline deadline, std::string& why);

}  // namespace asup::net
