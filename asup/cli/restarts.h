// A job that fails is started again, as --restarts asks, and its ranks know which life of the job
// they are in: by ASUP_RESTART, 0 in the first, and ASUP_JOB_ID, the same in all. Functions only;
// for the main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "asup/launch/launch.h"
#include "asup/net/membership/join_options.h"
#include "asup/train/job_life.h"

namespace asup::cli {

// Runs a job with these variables ("NAME=value") in its ranks' environment.
using RunJob = std::function<launch::JobResult(const std::vector<std::string>& variables)>;

// Runs it until it ends well, by a signal or for bad input, or has been started again so often; and
// says each time why it is. `name` is before these lines. Returns how the last life ended.
launch::JobResult run_with_restarts(const std::string& name, std::int64_t restarts,
                                    const RunJob& run);

// In a rank. Throws BadInput where the variables are not what the above has set.
train::JobLife life_in(const net::Environment& environment);

}  // namespace asup::cli
