// Where the ranks of a job are and how they are linked: all that measured rates depend on. Values
// only; surroundings_of() takes the mesh's lock for a moment.
#pragma once

#include <string>
#include <vector>

#include "asup/net/job.h"

namespace asup::collective::tuning {

struct Surroundings {
  std::vector<int> hosts;          // by rank, numbered from 0 in the order of the ranks
  std::vector<std::string> names;  // by host
  std::string near_link = "shm";   // between ranks of one host: shm, inproc, tcp, mpi
  std::string far_link = "tcp";    // between hosts
  int cores = 1;                   // that this process may use

  int ranks_on(int host) const;
  int most_ranks_on_a_host() const;
  // Ranks of one host are linked by memory and there is only that one.
  bool all_by_memory() const {
    return names.size() <= 1 && (near_link == "shm" || near_link == "inproc");
  }

  // What the rates of a job are remembered by: asup's version, links, cores, hosts and ranks on
  // each. The order of the hosts does not count.
  std::string key() const;
};

Surroundings surroundings_of(Job& job);

// The host of each of `members`, numbered from 0.
std::vector<int> hosts_of(const net::Roster& roster, const std::vector<int>& members);

}  // namespace asup::collective::tuning
