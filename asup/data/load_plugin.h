// Shared libraries of users' own (plugin.h), opened by path. They stay open until the process ends,
// since what they made may live as long. Safe from any thread.
#pragma once

#include <string>

#include "asup/base/error.h"

namespace asup::data {

// Whether a model or data set is named by a library: "./libmine.so".
bool is_plugin(const std::string& name);

// Its function asup_KIND, KIND being model or dataset. Throws BadInput, with the path: it is not
// there, cannot be loaded, has none, or was built for another asup or torch.
void* find_in_plugin(const std::string& path, const std::string& kind);

// Runs what is the user's; what it throws becomes BadInput that names the library.
template <typename Action>
void run_plugin(const std::string& path, const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    throw BadInput(fmt::format("{}: {}", path, error.what()));
  } catch (...) {
    throw BadInput(fmt::format("{}: threw something that is no std::exception", path));
  }
}

}  // namespace asup::data
