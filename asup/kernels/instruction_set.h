// Which instruction set the loops of this folder use on this processor.
// Safe from any thread.
#pragma once

#include <string_view>

namespace asup::kernels {

// "avx512", "avx2", "sse2" or "neon", for logs.
std::string_view instruction_set();

}  // namespace asup::kernels
