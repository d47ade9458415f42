// The members of a job that take part in a service of their own: its workers come first in the
// mesh, and where there are servers they follow them. Values only.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "asup/net/job.h"
#include "asup/net/transport/mesh.h"

namespace asup::net {

struct MemberGroup {
  Mesh& mesh;
  std::uint64_t id = 0;  // of their messages, the same on all
  int workers = 1;
  int servers = 0;

  int member_of_server(int server) const { return workers + server; }
  int head() const { return member_of_server(0); }  // the server that leads the others
  bool is_worker(int member) const { return member < workers; }
  int server_of(int member) const { return member - workers; }
  std::vector<int> members() const {
    std::vector<int> all(static_cast<std::size_t>(workers + servers));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
};

// Every member calls these as often as the others: the first calls belong together, the second
// ones, and so on. Groups of workers are counted as communicators are: servers, which count what is
// theirs too, take no part in them.
inline MemberGroup workers_of(Job& job) {
  return {job.mesh(), job.next_communicator_id(), job.size()};
}
inline MemberGroup workers_and_servers(Job& job) {
  return {job.mesh(), job.next_service_id(), job.size(), job.servers()};
}

}  // namespace asup::net
