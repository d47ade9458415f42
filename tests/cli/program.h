// The asup program, run from the outside. Used from one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/launch/launched.h"

namespace asup::cli {

std::string program_path();

// Starts it with these arguments.
std::unique_ptr<launch::Launched> start(std::vector<std::string> words);
// The same of any program, which is the first word: one that starts asup, perhaps.
std::unique_ptr<launch::Launched> start_command(const std::vector<std::string>& words);

struct Ended {
  int status;
  std::vector<std::string> out;  // lines, sorted
  std::string text, last_error;
};

// Starts it and waits, 120 s at most, for its end.
Ended run(const std::vector<std::string>& words);

}  // namespace asup::cli
