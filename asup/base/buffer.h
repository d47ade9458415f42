// Where a collective finds its numbers. A view: it owns nothing.
#pragma once

#include <cstddef>
#include <span>

#include "asup/base/dtype.h"

namespace asup {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;  // elements
  Dtype dtype = Dtype::f32;
  DeviceKind device = DeviceKind::cpu;
  int device_index = 0;
  void* stream = nullptr;  // the device's queue that orders access to `data`; null on the CPU

  std::size_t bytes() const { return count * size_of(dtype); }
};

template <typename T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::f64;
};
template <>
struct DtypeOf<std::int8_t> {
  static constexpr Dtype value = Dtype::i8;
};
template <>
struct DtypeOf<std::uint8_t> {
  static constexpr Dtype value = Dtype::u8;
};
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};
template <>
struct DtypeOf<std::int64_t> {
  static constexpr Dtype value = Dtype::i64;
};

template <typename T, std::size_t N>
Buffer buffer_of(std::span<T, N> values) {
  return {values.data(), values.size(), DtypeOf<T>::value};
}

}  // namespace asup
