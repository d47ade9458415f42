// The command line that a person typed, which the processes that it started know too. Functions
// only; safe from any thread.
#pragma once

#include <string>

namespace asup {

// As a shell would take it: what a launcher has left (see below), else this process's own.
std::string command_line();

// "NAME=value" for the environment of processes that are started: their command_line() is ours.
std::string command_line_variable();

}  // namespace asup
