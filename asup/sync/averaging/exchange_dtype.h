// What differences of models travel as, as a setting. Values only; safe from any thread.
#pragma once

#include <array>

#include "asup/config/value.h"
#include "asup/kernels/code.h"

namespace asup {

enum class ExchangeDtype { f32, bf16, int8, int4 };

constexpr auto names_of(ExchangeDtype) {
  using enum ExchangeDtype;
  return std::to_array<config::Named<ExchangeDtype>>(
      {{"f32", f32}, {"bf16", bf16}, {"int8", int8}, {"int4", int4}});
}

constexpr kernels::Code code_of(ExchangeDtype dtype) {
  switch (dtype) {
    case ExchangeDtype::f32:
      return kernels::Code::none;
    case ExchangeDtype::bf16:
      return kernels::Code::bf16;
    case ExchangeDtype::int8:
      return kernels::Code::int8;
    case ExchangeDtype::int4:
      return kernels::Code::int4;
  }
  return kernels::Code::none;
}

namespace sync {

// Whether what a code of differences loses is kept for the next exchange; else it is rounded at
// random, or is little.
constexpr bool keeps_what_is_lost(kernels::Code code) { return code == kernels::Code::int4; }

}  // namespace sync
}  // namespace asup
