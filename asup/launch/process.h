// Starting one process, with exactly the descriptors, environment and signals it should have.
// Used from a thread that stays: what it starts ends when the thread does.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace asup::launch {

struct ProcessOptions {
  std::vector<std::string> argv;         // argv[0] is looked up in the PATH of `environment`
  std::vector<std::string> environment;  // "NAME=value"
  std::string directory;                 // empty: ours
  int in = -1, out = -1, err = -1;       // -1: /dev/null for input, our own for output
  std::vector<int> keep;                 // descriptors it inherits, close-on-exec or not
};

// Starts it in a process group of its own, whose id is the process's, with default signals, to die
// (SIGTERM) when the calling thread does. Throws BadInput that names the program and the reason.
pid_t start_process(const ProcessOptions& options);

// The file that `name` means: itself where it has a slash, else the first on the path. Throws
// BadInput where there is none.
std::string find_program(const std::string& name, const std::vector<std::string>& environment);

// "NAME=value" of this process.
std::vector<std::string> own_environment();
void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value);
// The value, or "" where it is not set.
std::string get_variable(const std::vector<std::string>& environment, const std::string& name);

}  // namespace asup::launch
