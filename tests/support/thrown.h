// What an action throws.
#pragma once

#include <string>

namespace asup::testing {

// The message of the E that `action` throws; "" where it throws none.
template <typename E, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace asup::testing
