// Inputs for the tests of kernels: memory at odd addresses between guards, and values that include
// the special ones.
#pragma once

#include "tests/kernels/reference.h"

namespace asup::kernels {

// Elements that start `offset` bytes after an aligned address, with guard bytes around them.
class Array {
 public:
  Array(Dtype dtype, std::size_t count, std::size_t offset)
      : dtype_(dtype), count_(count), offset_(offset) {
    bytes_.assign(kGuard + offset + count * size_of(dtype) + kGuard, kGuardByte);
  }

  std::byte* data() { return bytes_.data() + kGuard + offset_; }
  const std::byte* data() const { return bytes_.data() + kGuard + offset_; }
  std::size_t count() const { return count_; }
  Dtype dtype() const { return dtype_; }

  reference::Bits operator[](std::size_t i) const { return reference::load(dtype_, data(), i); }
  void set(std::size_t i, reference::Bits bits) { reference::store(dtype_, data(), i, bits); }

  // Nothing was written outside the elements.
  bool guards_hold() const {
    const std::size_t end = bytes_.size() - kGuard;
    for (std::size_t i = 0; i < kGuard + offset_; ++i)
      if (bytes_[i] != kGuardByte) return false;
    for (std::size_t i = end; i < bytes_.size(); ++i)
      if (bytes_[i] != kGuardByte) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kGuardByte{0xa5};

  Dtype dtype_;
  std::size_t count_, offset_;
  std::vector<std::byte> bytes_;
};

// Bit patterns worth trying at every place: zeros, ones, the ends of the range, infinities, NaNs,
// the largest and smallest subnormal and normal numbers.
inline std::vector<reference::Bits> special_values(Dtype dtype) {
  using reference::Bits;
  const Bits sign = Bits{1} << (reference::bits_of(dtype) - 1);
  if (!is_floating(dtype)) return {0, 1, 2, 3, 7, sign, sign - 1, 2 * sign - 1, sign + 1, sign / 2};
  const int fraction_bits = reference::format_of(dtype).precision - 1;
  const Bits infinity = sign - (Bits{1} << fraction_bits);
  const Bits normal = Bits{1} << fraction_bits;  // the smallest
  std::vector<Bits> values = {0,
                              1,
                              normal - 1,
                              normal,
                              normal + 1,
                              reference::encode_float(dtype, 1),
                              reference::encode_float(dtype, 3),
                              reference::encode_float(dtype, 0.1L),
                              infinity - 1,
                              infinity,
                              infinity + normal / 2,
                              sign - 1};
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) values.push_back(values[i] | sign);
  return values;
}

// Long arrays repeat themselves after a number of elements that no vector or tile divides, so that
// the slow reference need not compute all of them.
inline constexpr std::size_t kPeriod = 2053;

// Some values of like size, some of any bits, some special.
inline void fill(Array& array, std::mt19937_64& random) {
  const Dtype dtype = array.dtype();
  const auto special = special_values(dtype);
  std::uniform_real_distribution<double> real(-100, 100);
  for (std::size_t i = 0; i < array.count(); ++i) {
    const auto kind = random() % 8;
    if (i >= kPeriod)
      array.set(i, array[i - kPeriod]);
    else if (kind == 0)
      array.set(i, special[random() % special.size()]);
    else if (kind == 1)
      array.set(i, random());
    else if (is_floating(dtype))
      array.set(i, reference::encode_float(dtype, real(random)));
    else
      array.set(i, static_cast<std::uint64_t>(static_cast<std::int64_t>(real(random))));
  }
}

inline Array random_array(Dtype dtype, std::size_t count, std::size_t offset, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Array array(dtype, count, offset);
  fill(array, random);
  return array;
}

inline std::string test_name(Dtype dtype, ReduceOp op) {
  return std::string(name_of(dtype)) + "_" + std::string(name_of(op));
}

}  // namespace asup::kernels
