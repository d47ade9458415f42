// Processes of this host, found by what is in their environment. Linux alone; safe from any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace asup::bench {

// All that have this "NAME=value" in their environment.
std::vector<pid_t> processes_with(const std::string& variable);
// Workers of jobs of asup's among them, the lowest rank first.
std::vector<pid_t> workers_with(const std::string& variable);
std::vector<pid_t> servers_with(const std::string& variable);

}  // namespace asup::bench
