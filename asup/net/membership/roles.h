// The two roles in a job. Workers train; servers keep what they share. Among the members of a job
// the workers come first, so that a worker's place is its rank, then the servers. Values only.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace asup::net {

struct Roles {
  int workers = 1;
  int servers = 0;

  int members() const { return workers + servers; }
  // Which of the servers the member is; nothing for a worker.
  std::optional<int> server(int member) const;
  // "3 workers and 1 server"; "3 ranks" where there are no servers.
  std::string describe() const;
  bool operator==(const Roles&) const = default;
};

// "rank 3" for a worker, "server 0" for a server, whatever its place.
std::string name_member(int place, std::optional<int> server);

// "rank 1", "ranks 1 and 3", "ranks 1, 3 and 5"; long runs are shortened: "ranks 1-6 and 9".
std::string name_ranks(std::vector<int> ranks);
// The same of both roles: "rank 1 and servers 0 and 1".
std::string name_members(const std::vector<int>& members, const Roles& roles);

}  // namespace asup::net
