// The reduction operators on vectors of values.
// Values only; safe from any thread.
#pragma once

#include "asup/kernels/isa/vectors.h"

namespace asup::kernels {
namespace {

// Integers are added and multiplied as unsigned ones, whose overflow is defined: they wrap.
template <typename T, bool kIsInteger = std::is_integral_v<T>>
struct ArithmeticOf {
  using type = T;
};
template <typename T>
struct ArithmeticOf<T, true> {
  using type = std::make_unsigned_t<T>;
};
template <typename T>
using Arithmetic = Vector<typename ArithmeticOf<T>::type>;

struct Sum {
  template <typename T>
  static Vector<T> apply(Vector<T> a, Vector<T> b) {
    return (Vector<T>)((Arithmetic<T>)a + (Arithmetic<T>)b);
  }
};

struct Product {
  template <typename T>
  static Vector<T> apply(Vector<T> a, Vector<T> b) {
    return (Vector<T>)((Arithmetic<T>)a * (Arithmetic<T>)b);
  }
};

// A NaN in b fails the first comparison and is taken; one in a fails the second and is kept.
struct Min {
  template <typename T>
  static Vector<T> apply(Vector<T> a, Vector<T> b) {
    const Vector<T> smaller = a < b ? a : b;
    return a == a ? smaller : a;
  }
};

struct Max {
  template <typename T>
  static Vector<T> apply(Vector<T> a, Vector<T> b) {
    const Vector<T> larger = a > b ? a : b;
    return a == a ? larger : a;
  }
};

}  // namespace
}  // namespace asup::kernels
