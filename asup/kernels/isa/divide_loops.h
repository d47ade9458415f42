// Division of integers by one number, toward zero. Vectors have no integer division: the quotient
// of 8 bits is taken in floats, that of 32 bits in doubles. It is exact, since a quotient that is
// no integer lies at least 1/|x| of itself away from one, far more than the rounding. Pure; safe
// from any thread.
#pragma once

#include "asup/kernels/isa/vectors.h"

namespace asup::kernels {
namespace {

template <typename T, typename Quotient>
void divide_integers(std::byte* data, std::size_t count, int divisor) {
  const Quotient by = static_cast<Quotient>(divisor);
  for (std::size_t i = 0; i < count; ++i) {
    T x;
    __builtin_memcpy(&x, data + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) == 1)  // through 32 bits, to which floats convert as vectors
      x = static_cast<T>(static_cast<std::int32_t>(static_cast<Quotient>(x) / by));
    else
      x = static_cast<T>(static_cast<Quotient>(x) / by);
    __builtin_memcpy(data + i * sizeof(T), &x, sizeof(T));
  }
}

}  // namespace
}  // namespace asup::kernels
