// One log for the process's own messages, on stderr. ASUP_LOG_LEVEL (trace … error) sets how much
// of it is shown; the default is warnings. spdlog's own thread-safety holds.
#pragma once

#include <spdlog/spdlog.h>

namespace asup {

// Reads ASUP_LOG_LEVEL and sets the line format. `who` names the process, for example "rank 3".
void set_up_log(const std::string& who);

}  // namespace asup
