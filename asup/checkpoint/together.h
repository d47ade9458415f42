// What ranks do together succeeds on all of them, or fails on all.
#pragma once

#include <string>

#include "asup/collective/communicator.h"
#include "asup/sync/model/agreement.h"

namespace asup::checkpoint {

// Runs `action`, and makes its complaint every rank's: a JobFailed. Collective; `action` is not.
template <typename Action>
void together(Communicator& communicator, const Action& action) {
  std::string complaint;
  try {
    action();
  } catch (const std::exception& error) {
    complaint = error.what();
  }
  sync::agree(communicator, complaint);
}

}  // namespace asup::checkpoint
