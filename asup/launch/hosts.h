// Which host runs which ranks. Values only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace asup::launch {

struct HostSpec {
  std::string name;  // as given to ssh: alpha, me@alpha, 10.0.0.1
  int slots = 0;     // ranks it can take; 0: not said

  bool local() const { return name == "localhost"; }
};

// Reads "alpha,me@beta:4,localhost". Throws BadInput.
std::vector<HostSpec> parse_hosts(std::string_view text);

// A run of ranks on one host, and the servers beside them.
struct Placement {
  HostSpec host;
  int first_rank = 0;
  int count = 0;
  std::vector<int> servers{};
};

// Ranks in order, host by host: as many as each has slots; where no slots are given, equally many
// (the first ones one more), or one each with `ranks` 0. Servers take no slots: they go round the
// hosts, beginning behind the last one that has a rank. Hosts that get nothing are left out. Throws
// BadInput where the ranks do not fit.
std::vector<Placement> place(int ranks, const std::vector<HostSpec>& hosts, int servers = 0);

}  // namespace asup::launch
