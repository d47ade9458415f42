#include "asup/net/transport/mpi/join.h"

#include <numeric>

#include "asup/base/error.h"
#include "asup/base/version.h"
#include "asup/net/membership/admission.h"
#include "asup/net/membership/control.h"
#include "asup/net/transport/mpi/wire.h"

namespace asup::net {
namespace {

constexpr int kTag = 1;

void check_world(const MpiProcess& process, const JoinOptions& options) {
  require(process.size() == options.size && process.rank() == options.rank,
          "{} says that this is rank {} of {}, and MPI that it is rank {} of {}: start with the "
          "mpirun of the MPI that asup was built with (asup --version), or with an srun that "
          "knows it (srun --mpi=list)",
          options.launcher, options.rank, options.size, process.rank(), process.size());
}

void check_in_time(bool in_time, MpiProcess& process, const JoinOptions& options) {
  if (in_time) return;
  process.give_up();
  throw JobFailed(fmt::format("not all {} ranks joined over MPI within {:.3g} s", options.size,
                              options.join_timeout.count()));
}

// Everybody's text, by rank.
std::vector<std::string> exchange(MpiProcess& process, const MpiGroup& group,
                                  const std::string& text, const JoinOptions& options,
                                  Deadline deadline) {
  const auto ranks = static_cast<std::size_t>(options.size);
  const int size = static_cast<int>(text.size());
  std::vector<int> sizes(ranks), places(ranks);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, group.get(), &request);
  check_in_time(wait_for(request, deadline), process, options);
  std::exclusive_scan(sizes.begin(), sizes.end(), places.begin(), 0);
  std::string all(static_cast<std::size_t>(places.back() + sizes.back()), '\0');
  MPI_Iallgatherv(text.data(), size, MPI_CHAR, all.data(), sizes.data(), places.data(), MPI_CHAR,
                  group.get(), &request);
  check_in_time(wait_for(request, deadline), process, options);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    texts.push_back(
        all.substr(static_cast<std::size_t>(places[rank]), static_cast<std::size_t>(sizes[rank])));
  return texts;
}

Roster roster_of(const std::vector<std::string>& hellos, const Roles& roles) {
  Admission admission(roles);
  for (const std::string& hello : hellos)
    if (const auto refusal = admission.admit(parse_hello(hello))) throw BadInput(refusal->reason);
  return admission.roster();
}

void refuse_to_encrypt(const Roster& roster, TlsMode tls) {
  const bool due = tls == TlsMode::on || (tls == TlsMode::automatic && !roster.one_host());
  require(!due,
          "links over MPI cannot be encrypted, as they should be{}: allow it by --tls off "
          "(ASUP_TLS=off on all ranks) where nobody else can read or write on that network, or use "
          "asup's own links (ASUP_LINKS=auto)",
          tls == TlsMode::on ? " with --tls on" : " between hosts");
}

}  // namespace

MpiMembers join_by_mpi(const JoinOptions& options, const Member& self) {
  MpiProcess& process = MpiProcess::get();
  check_world(process, options);
  require(process.job.expired(),
          "a job with links over MPI lives in this process already: end it before the next one "
          "joins, or give one of them other links (ASUP_LINKS=auto)");
  const Deadline deadline = after(options.join_timeout);
  const auto group = MpiGroup::duplicate(MPI_COMM_WORLD, deadline);
  check_in_time(group != nullptr, process, options);
  process.job = group;
  const Hello hello{kControlVersion, kVersion, options.size, options.servers, self};
  MpiMembers members;
  members.roster =
      roster_of(exchange(process, *group, to_json(hello), options, deadline), options.roles());
  refuse_to_encrypt(members.roster, options.tls);
  members.wires.resize(static_cast<std::size_t>(options.size));
  for (int peer = 0; peer < options.size; ++peer)
    if (peer != options.rank)
      members.wires[static_cast<std::size_t>(peer)] =
          std::make_unique<MpiWire>(group, peer, kTag, kTag);
  return members;
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string name(text, static_cast<std::size_t>(length));
  return name.substr(0, name.find_first_of(",\n"));
}

}  // namespace asup::net
