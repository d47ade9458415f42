// What one host is to start: its ranks of the job, and its servers. The launcher gives it to its
// own ranks, and sends it as a line of JSON to the agents on other hosts, inside ssh. Values only.
#pragma once

#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/membership/key.h"
#include "asup/net/membership/roles.h"

namespace asup::launch {

struct HostJob {
  bool joins = false;               // a job that runs: its coordinator gives the ranks their places
  bool goes_on_after_loss = false;  // of a rank
  int size = 1;                     // ranks of the whole job
  int servers = 0;                  // of the whole job
  int first_rank = 0;
  int count = 1;                 // ranks on this host
  std::vector<int> own_servers;  // servers on this host
  std::string coordinator;
  net::Key key{};
  std::vector<std::string> program;  // and its arguments
  std::vector<std::string> server_program;
  std::string directory;                 // to run it in; empty: where the starter is
  std::vector<std::string> environment;  // "NAME=value", over the host's own
  Seconds grace{5};                      // between SIGTERM and SIGKILL

  net::Roles roles() const { return {size, servers}; }
  std::vector<int> members() const;  // on this host, by their places in the job

  // The variables that tell a member who it is (join_options.h), and how many threads it may use.
  std::vector<std::string> environment_of(int member, std::vector<std::string> base) const;
};

std::string to_json(const HostJob& job);
HostJob parse_host_job(const std::string& text);  // throws BadInput

}  // namespace asup::launch
