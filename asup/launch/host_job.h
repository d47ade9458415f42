// What one host is to start: its ranks of the job. The launcher gives it to its own ranks, and
// sends it as a line of JSON to the agents on other hosts, inside ssh. Values only.
#pragma once

#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/key.h"

namespace asup::launch {

struct HostJob {
  int size = 1;  // of the whole job
  int first_rank = 0;
  int count = 1;  // ranks on this host
  std::string coordinator;
  net::Key key{};
  std::vector<std::string> program;      // and its arguments
  std::string directory;                 // to run it in; empty: where the starter is
  std::vector<std::string> environment;  // "NAME=value", over the host's own
  Seconds grace{5};                      // between SIGTERM and SIGKILL

  // The variables that tell rank `rank` who it is (identity.h), and how many threads it should use.
  std::vector<std::string> environment_of(int rank, int key_fd,
                                          std::vector<std::string> base) const;
};

std::string to_json(const HostJob& job);
HostJob parse_host_job(const std::string& text);  // throws BadInput

}  // namespace asup::launch
