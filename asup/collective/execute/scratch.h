// Memory that calls use one after the other; as large as the largest needed. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>

namespace asup::collective {

class Scratch {
 public:
  // What an earlier call left in it is gone.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace asup::collective
