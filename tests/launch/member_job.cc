#include "member_job.h"

namespace asup::launch {

LaunchOptions member_job(int ranks, std::vector<std::string> arguments) {
  LaunchOptions options;
  options.ranks = ranks;
  options.program = {MEMBER_PROGRAM};
  for (auto& argument : arguments) options.program.push_back(std::move(argument));
  return options;
}

LaunchOptions with_servers(LaunchOptions options, int servers) {
  options.servers = servers;
  options.server_program = {MEMBER_PROGRAM, "server"};
  return options;
}

}  // namespace asup::launch
