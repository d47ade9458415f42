// What is thrown where there is no memory for what was asked of this process, but by `new`, which
// throws std::bad_alloc.
#pragma once

#include "asup/base/error.h"

namespace asup {

class OutOfMemory : public Error {
 public:
  using Error::Error;
};

}  // namespace asup
