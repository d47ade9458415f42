// What is kept of a tensor from one step to the next. Values only; safe from any thread.
#pragma once

namespace asup::kernels {

// Where numbers lie, and where they go; the two may be the same memory.
struct Kept {
  const float* before = nullptr;
  float* after = nullptr;
};

}  // namespace asup::kernels
