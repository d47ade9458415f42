// How the ranks of a job that mpirun started come together over MPI itself: no coordinator and no
// key, since MPI has its own. This header knows no MPI: without it, join_by_mpi() says so.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "asup/net/membership/join_options.h"
#include "asup/net/membership/roster.h"
#include "asup/net/transport/wire.h"

namespace asup::net {

struct MpiMembers {
  Roster roster;
  std::vector<std::unique_ptr<Wire>> wires;  // by rank, null at our own
};

// Comes back when all ranks of MPI_COMM_WORLD have called it. Throws BadInput where asup was built
// without MPI, where MPI knows another job than the options tell of, where a job over MPI lives in
// this process already, or where the links should be encrypted (--tls), which MPI cannot; JobFailed
// where not all came in time. Called from one thread.
MpiMembers join_by_mpi(const JoinOptions& options, const Member& self);

// The MPI that asup was built with, as it names itself; "none".
std::string mpi_library();

}  // namespace asup::net
