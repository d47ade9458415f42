// Which instruction set the loops of this folder use on this processor.
// Safe from any thread.
#pragma once

#include <string_view>

namespace asup::kernels {

// "avx512", "avx2", "sse2" or "neon", for logs.
std::string_view instruction_set();

// Whether the processor itself multiplies numbers of bf16: else they are slower than f32.
bool multiplies_bf16();

}  // namespace asup::kernels
