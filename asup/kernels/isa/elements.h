// The element types as the loops see them: how many bytes one takes in memory, what a vector of
// values to compute with is, and how it is loaded and stored. Values only; safe from any thread.
#pragma once

#include <utility>

#include "asup/kernels/isa/half.h"

namespace asup::kernels {
namespace {

// Values in one vector.
template <typename T>
struct InVector {
  using Value = T;
  using Values = Vector<T>;
  static constexpr std::size_t kLanes = kVectorBytes / sizeof(T);

  template <typename Op>
  static Values combine(Values a, Values b) {
    return Op::template apply<T>(a, b);
  }
  static Values scale(Values values, T by) { return values * by; }
};

// Values in two vectors, neighbours apart.
struct InPairs {
  using Value = float;
  using Values = FloatPairs;
  static constexpr std::size_t kLanes = 2 * kFloats;

  template <typename Op>
  static Values combine(Values a, Values b) {
    return {Op::template apply<float>(a.lower, b.lower),
            Op::template apply<float>(a.upper, b.upper)};
  }
  static Values scale(Values values, float by) { return {values.lower * by, values.upper * by}; }
};

// Computed with as it lies in memory.
template <typename T>
struct Native : InVector<T> {
  using Exact = Native;  // the element that holds the same Values unrounded
  using typename InVector<T>::Values;
  static constexpr std::size_t kSize = sizeof(T);

  static Values load(const std::byte* from) { return load_vector<Values>(from); }
  static void store(std::byte* to, Values values) { store_vector(to, values); }
};

using F32 = Native<float>;
using F64 = Native<double>;

struct F16 : InVector<float> {
  using Exact = F32;
  static constexpr std::size_t kSize = 2;

  static Values load(const std::byte* from) { return widen_f16(load_vector<Halves>(from)); }
  static void store(std::byte* to, Values values) { store_vector(to, narrow_f16(values)); }
};

// A float's bytes, for the company of Bf16.
struct F32Pairs : InPairs {
  using Exact = F32Pairs;
  static constexpr std::size_t kSize = 4;

  static Values load(const std::byte* from) {
    return split(from, std::make_index_sequence<kFloats>());
  }
  static void store(std::byte* to, Values values) {
    merge(to, values, std::make_index_sequence<kFloats>());
  }

 private:
  template <std::size_t... I>
  static Values split(const std::byte* from, std::index_sequence<I...>) {
    const Floats a = load_vector<Floats>(from);
    const Floats b = load_vector<Floats>(from + kVectorBytes);
    return {__builtin_shufflevector(a, b, (2 * I)...),
            __builtin_shufflevector(a, b, (2 * I + 1)...)};
  }
  template <std::size_t... I>
  static void merge(std::byte* to, Values v, std::index_sequence<I...>) {
    store_vector(to, __builtin_shufflevector(v.lower, v.upper, (I / 2 + I % 2 * kFloats)...));
    store_vector(
        to + kVectorBytes,
        __builtin_shufflevector(v.lower, v.upper, ((I + kFloats) / 2 + I % 2 * kFloats)...));
  }
};

struct Bf16 : InPairs {
  using Exact = F32Pairs;
  static constexpr std::size_t kSize = 2;

  static Values load(const std::byte* from) { return widen_bf16(load_vector<Words>(from)); }
  static void store(std::byte* to, Values values) { store_vector(to, narrow_bf16(values)); }
};

}  // namespace
}  // namespace asup::kernels
