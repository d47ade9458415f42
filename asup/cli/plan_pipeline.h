// `asup plan pipeline`. A function only, for the main thread.
#pragma once

#include "asup/cli/command.h"

namespace asup::cli {

Command add_plan_pipeline(CLI::App& plan);

}  // namespace asup::cli
