// Torch's operators in a timeline: while it lives, those that the thread which made it calls are
// recorded beside what the thread does itself, where it takes part in one. Backward's are among
// them on CPUs, where it runs in the same thread.
#pragma once

#include <cstdint>

namespace asup {

class TorchOperators {
 public:
  TorchOperators();
  ~TorchOperators();
  TorchOperators(const TorchOperators&) = delete;
  TorchOperators& operator=(const TorchOperators&) = delete;

 private:
  const std::uint64_t handle_;
};

}  // namespace asup
