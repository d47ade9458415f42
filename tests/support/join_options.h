// How the ranks of a test join a job of their own.
#pragma once

#include <memory>

#include "asup/net/membership/coordinator.h"
#include "asup/net/membership/join_options.h"

namespace asup::testing {

// But for the rank, and for the address that it hears from the coordinator. The last `servers` of
// the ranks are servers.
net::JoinOptions join_options(int ranks, net::LinkKind links, int servers);

// Where such ranks meet, on this host. Null where they need no coordinator: one rank alone, or
// threads, which meet at a hub.
std::unique_ptr<net::Coordinator> make_coordinator(const net::JoinOptions& options);

}  // namespace asup::testing
