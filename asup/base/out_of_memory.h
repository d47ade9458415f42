// What is thrown where there is no memory for what was asked of this process, but by `new`, which
// throws std::bad_alloc.
#pragma once

#include "asup/base/error.h"

namespace asup {

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

inline bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const OutOfMemory*>(&error) != nullptr;
}

}  // namespace asup
