// Element-wise reductions over raw memory.
//
// Memory need not be aligned. dst may be exactly one of the sources, but must not overlap one in
// part. The result of an element depends on its inputs alone, not on its place or on the
// instruction set: bits are equal everywhere. Nothing is allocated. Safe from any thread on memory
// of its own.
//
// - f16 and bf16 are computed in f32 and rounded once, at the end.
// - Integer sums and products wrap.
// - min and max are NaN where any input is; of two equal values (-0 and +0) they take the later
//   source's. A NaN's sign and payload are whatever the processor makes of them.
// - Subnormal numbers are kept, unless the calling thread has asked its processor to flush them.
#pragma once

#include <cstddef>
#include <span>

#include "asup/base/dtype.h"

namespace asup::kernels {

// dst[i] = a[i] op b[i]. Average adds; divisor > 1 says that this completes it, and divides: floats
// are multiplied by the reciprocal, integers divided toward zero.
// needs: divisor >= 1, and 1 unless op is sum or average
void reduce(Dtype dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count,
            int divisor = 1);

// dst[i] = sources[0][i] op sources[1][i] op ..., from left to right.
// needs: one source or more; divisor as above
void reduce_many(Dtype dtype, ReduceOp op, void* dst, std::span<const void* const> sources,
                 std::size_t count, int divisor = 1);

// The same for every one of dsts, each of which may be exactly one of the sources: an element is
// read from all of them before it is written to any. Faster than copies made afterwards. needs: one
// destination or more, none of which overlap; the rest as above
void reduce_to_all(Dtype dtype, ReduceOp op, std::span<void* const> dsts,
                   std::span<const void* const> sources, std::size_t count, int divisor = 1);

// Divides in place, as above.
void divide(Dtype dtype, void* data, std::size_t count, int divisor);

}  // namespace asup::kernels
