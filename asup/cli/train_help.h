// The help of `asup train`, from the tables of settings and of ways. Functions only.
#pragma once

#include "asup/cli/help.h"

namespace asup::cli {

// The short help has the common settings and a line for each way; each way has a page with its
// settings and an example.
HelpOptions train_help();

}  // namespace asup::cli
