#include "asup/kernels/isa/implementation.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || \
    !defined(__AVX512VL__)
#error "compile this file with -mavx512f -mavx512bw -mavx512dq -mavx512vl (CMakeLists.txt does)"
#endif

namespace asup::kernels {

constinit const Table kAvx512Table = make_table("avx512");

}  // namespace asup::kernels
