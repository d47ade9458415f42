// Who this process is in its job, as its launcher told it through the environment.
//
//   asup run   ASUP_RANK ASUP_SIZE ASUP_COORDINATOR=host:port, key on file descriptor ASUP_KEY_FD;
//              in a server ASUP_ROLE=server and ASUP_SERVER_RANK instead of the rank. ASUP_SIZE
//              counts the workers, ASUP_SERVERS the servers
//   asup run --join  ASUP_JOIN=1 ASUP_COORDINATOR and the key: a worker of a job that runs already;
//              the coordinator gives it a place
//   torchrun   RANK WORLD_SIZE MASTER_ADDR MASTER_PORT (on several hosts asup listens on the port
//              after it, on one on any)
//   Open MPI   OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_SIZE PMIX_NAMESPACE
//   Slurm      SLURM_PROCID SLURM_NTASKS SLURM_NODELIST SLURM_JOB_ID (or those of the step)
//
// The first of these that is there counts. Under the last three, rank 0 keeps the coordinator, and
//   ASUP_COORDINATOR=host:port  says where, instead of what follows from the launcher's variables;
//   ASUP_KEY_FILE=path          holds the job's key (key.h). A job on one host needs none: its
//   ranks
//                               get a random key from rank 0 on this host (key_exchange.h).
// and ASUP_SERVERS=S             makes servers of the last S processes.
// Under the first, ASUP_ON_LOSS=continue says that a lost worker does not end the job.
// Under all of them, ASUP_INTERFACE, ASUP_LINKS (auto, shm, tcp, mpi), ASUP_TLS (auto, on, off),
// ASUP_JOIN_TIMEOUT and ASUP_CALL_TIMEOUT (seconds) set the fields of the same name. Links over MPI
// are for the last two, and need neither coordinator nor key: MPI has its own.
//
// Values only; reading the environment is the one thing here that touches the process.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "asup/base/clock.h"
#include "asup/net/membership/key.h"
#include "asup/net/membership/roles.h"
#include "asup/net/membership/tls_mode.h"

namespace asup::net {

class InprocHub;

enum class LinkKind { automatic, inproc, shm, tcp, mpi };

struct JoinOptions {
  int rank = 0;                     // place among the members: workers first, then servers
  int size = 1;                     // members, servers included
  int servers = 0;                  // how many of them, the last ones, are servers
  std::string coordinator;          // host:port; empty with size 1: there is none
  bool joins = false;               // a running job, which gives place and size
  bool goes_on_after_loss = false;  // of a worker: the launcher does not end the others
  bool host_coordinator = false;    // this member keeps the coordinator (rank 0, other launchers)
  Key key{};
  // Where rank 0 hands key and coordinator's address to the ranks of its host and user; empty: both
  // are known. With such a socket, `key` counts for nothing: Membership::key() is the job's.
  std::string key_socket;
  bool one_host = false;  // the launcher says that all ranks are on this host
  // Name, address or network the member listens on; empty: the route to the coordinator.
  std::string interface;
  LinkKind links = LinkKind::automatic;
  TlsMode tls = TlsMode::automatic;
  InprocHub* hub = nullptr;  // joins links of LinkKind::inproc; outlives the job
  Seconds join_timeout{60};
  Seconds call_timeout{300};      // default deadline of a collective
  std::string launcher = "none";  // for messages: "asup run", "torchrun", "Slurm", "Open MPI"

  Roles roles() const { return {size - servers, servers}; }
  bool is_server() const { return roles().server(rank).has_value(); }
};

// Looks a variable up; std::getenv in the product, a map in tests.
using Environment = std::function<std::optional<std::string>(const char*)>;
Environment process_environment();
// The same but for one variable: a flag that counts before it.
Environment with_variable(Environment environment, std::string name, std::string value);

// The names of those variables that begin with ASUP_.
std::span<const std::string_view> member_variables();

// Throws BadInput that names the variable and what to do. With no launcher's variables at all: a
// job of one.
JoinOptions identity_from(const Environment& environment);

// The first host of a list as Slurm writes it: "node[03-07,9],gpu1" is "node03". Throws BadInput.
std::string first_slurm_host(const std::string& list);

}  // namespace asup::net
