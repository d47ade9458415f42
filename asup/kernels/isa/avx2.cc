#include "asup/kernels/isa/implementation.h"

#if !defined(__AVX2__) || !defined(__F16C__)
#error "compile this file with -mavx2 -mf16c (asup/kernels/CMakeLists.txt does)"
#endif

namespace asup::kernels {

constinit const Table kAvx2Table = make_table("avx2");

}  // namespace asup::kernels
