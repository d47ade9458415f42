// asup's own log, on stderr: a program that uses asup keeps its standard output, and its own
// spdlog, to itself. ASUP_LOG_LEVEL (trace … error) sets how much is shown; the default is
// warnings. Safe from any thread.
#pragma once

#include <spdlog/logger.h>

#include <string>

namespace asup {

spdlog::logger& log();

// Names the process in its lines, for example "rank 3". Called before there are other threads.
void set_up_log(const std::string& who);

}  // namespace asup
