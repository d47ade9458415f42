#include "asup/cli/restarts.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <ctime>

#include "asup/base/error.h"
#include "asup/base/numbers.h"
#include "asup/cli/usage.h"

namespace asup::cli {
namespace {

constexpr const char *kRestart = "ASUP_RESTART", *kJob = "ASUP_JOB_ID";

std::string new_job_id() {
  return fmt::format("{:%Y%m%d-%H%M%S}-{}", fmt::localtime(std::time(nullptr)), ::getpid());
}

bool may_succeed_next_time(const launch::JobResult& result) {
  return result.exit_status == 1 && !result.is_bad_input();
}

}  // namespace

launch::JobResult run_with_restarts(const std::string& name, std::int64_t restarts,
                                    const RunJob& run) {
  if (restarts == 0) return run({});
  const std::string job = new_job_id();
  for (std::int64_t restart = 0;; ++restart) {
    const auto result =
        run({fmt::format("{}={}", kRestart, restart), fmt::format("{}={}", kJob, job)});
    if (restart == restarts || !may_succeed_next_time(result)) return result;
    print_last_line(name, fmt::format("{}; starting the job again ({} of {})", result.message,
                                      restart + 1, restarts));
  }
}

train::JobLife life_in(const net::Environment& environment) {
  const std::string text = environment(kRestart).value_or("0");
  const auto restart = number_in<std::int64_t>(text);
  require(restart && *restart >= 0, "{} = '{}' is no count: leave it to asup run --restarts",
          kRestart, text);
  return {environment(kJob).value_or(""), *restart};
}

}  // namespace asup::cli
