// Conversion of raw memory from one element type to another.
//
// Memory need not be aligned, and src and dst must not overlap, except that they may be the same
// where the two types are. Nothing is allocated. Safe from any thread on memory of its own.
//
// - To a float type: the exact value, rounded once to the nearest (ties to even), infinite beyond
// the
//   range; f64 or i64 to f16 does not round twice by way of f32. NaN stays NaN.
// - A float to an integer: the fraction is dropped; beyond the range the nearest integer of the
// type
//   is taken, for NaN 0 (where C++'s static_cast is undefined).
// - An integer to an integer: as static_cast, modulo 2^bits.
#pragma once

#include <cstddef>

#include "asup/base/dtype.h"

namespace asup::kernels {

void cast(Dtype from, const void* src, Dtype to, void* dst, std::size_t count);

}  // namespace asup::kernels
