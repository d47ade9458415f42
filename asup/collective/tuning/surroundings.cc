#include "asup/collective/tuning/surroundings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "asup/base/thread.h"
#include "asup/base/version.h"
#include "asup/net/transport/mesh.h"

namespace asup::collective::tuning {

int Surroundings::ranks_on(int host) const {
  return static_cast<int>(std::count(hosts.begin(), hosts.end(), host));
}

int Surroundings::most_ranks_on_a_host() const {
  int most = 0;
  for (int host = 0; host < static_cast<int>(names.size()); ++host)
    most = std::max(most, ranks_on(host));
  return most;
}

std::string Surroundings::key() const {
  std::vector<std::string> places;
  for (int host = 0; host < static_cast<int>(names.size()); ++host)
    places.push_back(fmt::format("{} x{}", names[static_cast<std::size_t>(host)], ranks_on(host)));
  std::sort(places.begin(), places.end());
  return fmt::format("asup {}, {} inside a host, {} between, {} cores: {}", kVersion, near_link,
                     far_link, cores, fmt::join(places, ", "));
}

std::vector<int> hosts_of(const net::Roster& roster, const std::vector<int>& members) {
  std::vector<const net::HostId*> known;
  std::vector<int> hosts;
  for (const int member : members) {
    const net::HostId& host = roster.members[static_cast<std::size_t>(member)].host;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const net::HostId* other) { return *other == host; });
    hosts.push_back(static_cast<int>(same - known.begin()));
    if (same == known.end()) known.push_back(&host);
  }
  return hosts;
}

Surroundings surroundings_of(Job& job) {
  Surroundings result;
  const net::Roster& roster = job.roster();
  std::vector<int> members(static_cast<std::size_t>(job.size()));
  std::iota(members.begin(), members.end(), 0);
  result.hosts = hosts_of(roster, members);
  result.cores = usable_cores();
  if (job.options().links == net::LinkKind::tcp) result.near_link = "tcp";
  if (job.options().links == net::LinkKind::mpi) result.near_link = result.far_link = "mpi";
  const net::MeshLock lock(job.mesh().loop());
  for (int rank = 0; rank < job.size(); ++rank) {
    const int host = result.hosts[static_cast<std::size_t>(rank)];
    if (host == static_cast<int>(result.names.size()))
      result.names.push_back(roster.members[static_cast<std::size_t>(rank)].hostname);
    if (rank == job.rank()) continue;
    const bool near = host == result.hosts[static_cast<std::size_t>(job.rank())];
    (near ? result.near_link : result.far_link) = job.mesh().link(rank).wire().abilities().name;
  }
  return result;
}

}  // namespace asup::collective::tuning
