#include "asup/bench/timed_job.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/launch/launch.h"

namespace asup::bench {

int run_as_job(const std::vector<std::string>& command, int ranks, int servers,
               const std::string& links) {
  launch::LaunchOptions launch;
  launch.program = command;
  launch.ranks = ranks;
  launch.servers = servers;
  launch.links = links;
  launch.inherit_rank_zero = true;
  launch.name = "asup bench";
  const launch::JobResult result = launch::run(launch);
  if (!result.message.empty()) fmt::print(stderr, "{}\n", result.message);
  return result.exit_status;
}

double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void write_rows(const std::string& file, const nlohmann::json& rows) {
  std::ofstream out(file);
  out << rows.dump(2) << "\n";
  require(out.good(), "cannot write {}", file);
}

}  // namespace asup::bench
