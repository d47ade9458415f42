// How the numbers of a call travel. Values only.
#pragma once

#include <cstdint>
#include <optional>

#include "asup/kernels/code.h"

namespace asup {

// Of an all-reduce of f32. All ranks give the same code, and get the same bits. A rank alone codes
// nothing and loses nothing.
struct Coding {
  kernels::Code code = kernels::Code::none;  // none: as they are
  // Error feedback, as many numbers as the call has: what a code does not say goes to `lost`, to be
  // `carried` into the next call of the same numbers. Of a sum, its owner keeps it. Both or none;
  // they may be the same memory, but where a call may be dropped (a step that is skipped), two
  // memories by turns keep what the call began with.
  const float* carried = nullptr;
  float* lost = nullptr;
  // Rounded up or down at random by this seed, where a code knows it (kernels/code.h).
  std::optional<std::uint64_t> noise{};
};

}  // namespace asup
