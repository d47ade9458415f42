#include "asup/kernels/isa/implementation.h"

namespace asup::kernels {

#if defined(__aarch64__)
constinit const Table kBaselineTable = make_table("neon");
#elif defined(__x86_64__)
constinit const Table kBaselineTable = make_table("sse2");
#else
constinit const Table kBaselineTable = make_table("baseline");
#endif

}  // namespace asup::kernels
