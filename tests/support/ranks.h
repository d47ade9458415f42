// Runs ranks as threads of the test, each a member of a real job over real links.
#pragma once

#include <functional>
#include <string>

#include "asup/base/clock.h"
#include "asup/net/job.h"
#include "asup/net/membership/join_options.h"

namespace asup::testing {

// How long a rank of a test waits for another: far longer than any takes, on a machine that is busy
// with other tests under a sanitizer too.
inline constexpr Seconds kPatience{120};

// Calls `body` once a rank, each on its own thread with a joined job; returns when all have ended,
// and throws what the lowest rank threw. The last `servers` of them are servers.
void run_ranks(int ranks, net::LinkKind links, const std::function<void(Job&)>& body,
               int servers = 0);

// "inproc", "shm", "tcp", "mpi": names for parameterised tests.
std::string name_of(net::LinkKind links);

}  // namespace asup::testing
