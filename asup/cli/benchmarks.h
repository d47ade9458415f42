// The benchmarks of `asup bench`: a command each. Functions only, for the main thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "asup/cli/command.h"

namespace asup::cli {

// `asup bench NAME`, without flags yet.
CLI::App* add_bench(CLI::App& bench, const std::string& name, const std::string& what);

// A benchmark is checked before it runs, too.
Command benchmark(CLI::App* command, std::function<void()> check, std::function<int()> run,
                  std::vector<Example> examples);

// Those that train one job many times.
Command add_stragglers(CLI::App& bench);
Command add_time_to_accuracy(CLI::App& bench);
Command add_large_batch(CLI::App& bench);
Command add_faults(CLI::App& bench);

}  // namespace asup::cli
