// Who takes part in a parameter server: the first members of a mesh are its workers, the servers
// follow them. Values only.
#pragma once

#include <cstdint>
#include <vector>

#include "asup/net/job.h"
#include "asup/net/mesh.h"

namespace asup::ps {

struct Team {
  net::Mesh& mesh;
  std::uint64_t id = 0;  // of their mail, the same on all: from Job::next_service_id()
  int workers = 1;
  int servers = 1;

  int member_of_server(int server) const { return workers + server; }
  int head() const { return member_of_server(0); }
  bool is_worker(int member) const { return member < workers; }
  int server_of(int member) const { return member - workers; }
  std::vector<int> members() const {
    std::vector<int> all;
    for (int member = 0; member < workers + servers; ++member) all.push_back(member);
    return all;
  }
};

// All of a job. Every member calls it as often as the others: the first calls belong together, the
// second ones, and so on.
inline Team team_of(Job& job) {
  return {job.mesh(), job.next_service_id(), job.size(), job.servers()};
}

}  // namespace asup::ps
