// Processes of this host, found by what is in their environment. Linux alone; safe from any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace asup::bench {

// Workers of jobs of asup's with this "NAME=value" in their environment, the lowest rank first.
std::vector<pid_t> workers_with(const std::string& variable);

}  // namespace asup::bench
