// What benchmarks that time a job of several processes have in common.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace asup::bench {

// Runs this benchmark again, as the processes of a job; its exit status. `servers`: beside the
// ranks.
int run_as_job(const std::vector<std::string>& command, int ranks, int servers,
               const std::string& links);

// What this share of the times, which are in order, is not above. needs: one or more
double at_share(const std::vector<double>& sorted, double share);

void write_rows(const std::string& file, const nlohmann::json& rows);

}  // namespace asup::bench
