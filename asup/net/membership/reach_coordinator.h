// Connecting to the coordinator. Blocks its thread until the deadline at most.
#pragma once

#include <string>

#include "asup/base/clock.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/control_connection.h"

namespace asup::net {

// Connects and proves the key both ways, trying again while nobody answers: the coordinator may
// start later than this member. Throws JobFailed at the deadline, BadInput where something else
// than this job's coordinator answers. `who` is this member, for messages.
ControlConnection reach_coordinator(const SocketAddress& address, const Key& key, TlsMode tls,
                                    const std::string& who, Deadline deadline);

// Drives the connection until a frame has come. Throws JobFailed where it ends or the deadline
// passes.
ControlFrame next_frame(ControlConnection& connection, Deadline deadline);

}  // namespace asup::net
