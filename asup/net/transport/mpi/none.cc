// Stands in for join.cc where asup is built without MPI.
#include "asup/base/error.h"
#include "asup/net/transport/mpi/join.h"

namespace asup::net {

MpiMembers join_by_mpi(const JoinOptions&, const Member&) {
  throw BadInput(
      "this asup was built without MPI: install libopenmpi-dev and openmpi-bin and build it again, "
      "or use other links (ASUP_LINKS=auto), which work under mpirun too");
}

std::string mpi_library() { return "none"; }

}  // namespace asup::net
