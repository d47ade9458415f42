// Runs ranks as processes of their own, each a member of a real job over real links.
#pragma once

#include <functional>

#include "asup/net/job.h"
#include "asup/net/membership/join_options.h"

namespace asup::testing {

// Forks a process a rank and calls `body` there with a joined job; returns when all have ended.
// What fails in one, an assertion or an exception, fails the test, with its words; `killed` is the
// rank that must die by SIGKILL, if any; the last `servers` ranks are servers. needs: no other
// thread runs
void run_processes(int ranks, net::LinkKind links, const std::function<void(Job&)>& body,
                   int killed = -1, int servers = 0);

}  // namespace asup::testing
