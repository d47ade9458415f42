// The environment variables that asup knows. All names that begin with ASUP_ are asup's, so that a
// mistyped one is refused instead of having no effect. Functions on values; safe from any thread.
#pragma once

#include <string>
#include <vector>

namespace asup {

// ASUP_STRATEGY, and one for each setting of a strategy: ASUP_SYNC, ASUP_PACE, …
std::vector<std::string> strategy_variables();

// Those that are for programs of one's own: these, and ASUP_TIMELINE.
std::vector<std::string> program_variables();

// The names of this process's variables that begin with ASUP_, without those that are empty.
std::vector<std::string> own_variables();

// Throws BadInput for the first that asup does not know, with the nearest that it knows.
void refuse_unknown_variables(const std::vector<std::string>& names);

}  // namespace asup
