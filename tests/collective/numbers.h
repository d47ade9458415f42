// Room for some numbers, in memory that others reach or not.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::collective::testing {

template <typename T>
struct Numbers {
  Numbers(Communicator& communicator, std::size_t count, bool shared) {
    if (shared) {
      memory = communicator.allocate(count * sizeof(T));
      values = {reinterpret_cast<T*>(memory->bytes().data()), count};
    } else {
      own.resize(count);
      values = own;
    }
  }
  Numbers(Numbers&&) = default;

  Buffer buffer() { return buffer_of(values); }

  std::unique_ptr<SharedMemory> memory;
  std::vector<T> own;
  std::span<T> values;
};

}  // namespace asup::collective::testing
