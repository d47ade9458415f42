// The help of `asup train`: short, with a page for each way of training.
#pragma once

#include <CLI/CLI.hpp>

namespace asup::cli {

// -h, --help: the settings that all runs have, and a line for each way. --help WAY: the way, its
// settings and an example.
void add_train_help(CLI::App& command);

}  // namespace asup::cli
