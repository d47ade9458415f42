// Jobs of launch_member (member.cc), which joins and does what its arguments say.
#pragma once

#include <string>
#include <vector>

#include "asup/launch/launch.h"

namespace asup::launch {

LaunchOptions member_job(int ranks, std::vector<std::string> arguments);
// And some of it as servers.
LaunchOptions with_servers(LaunchOptions options, int servers);

}  // namespace asup::launch
