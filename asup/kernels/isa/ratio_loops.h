// Squares of parameters, and of what a rule measures beside them for the ratio of their norms.
// Pure; safe from any thread.
#pragma once

#include "asup/kernels/isa/scan_loops.h"
#include "asup/kernels/isa/update_loops.h"

namespace asup::kernels {
namespace {

// Calls visit(formula) with the formula of a rule that takes norms.
template <typename Visit>
inline void with_measured_formula(const Rule& rule, const UpdateStep& step, Visit visit) {
  const bool is_lamb = rule.kind == Rule::Kind::lamb;
  if (step.is_whole()) return is_lamb ? visit(Lamb(rule, step)) : visit(Lars(rule, step));
  return is_lamb ? visit(LambPart(rule, step)) : visit(LarsPart<true>(rule, step));
}

// State is read alone: what it becomes is of no interest before the update itself.
template <typename Formula>
[[gnu::noinline]] void measure_tile(const Formula& formula, float* measured,
                                    const float* const* rows, std::size_t count) {
  constexpr std::size_t kSlots = Formula::kSlots;
  for_each_line<1, 2 + kSlots>(
      &measured, rows, count, [formula](std::byte* const* changed, const std::byte* const* read) {
        for (std::size_t at = 0; at < kLineBytes; at += kVectorBytes) {
          Floats state[Formula::kSlots + 1] = {};
          for (std::size_t slot = 0; slot < kSlots; ++slot)
            state[slot] = load_vector<Floats>(read[2 + slot] + at);
          store_vector(changed[0] + at, formula.measured(load_vector<Floats>(read[0] + at),
                                                         load_vector<Floats>(read[1] + at), state));
        }
      });
}

void sums_for_ratio(const Rule& rule, const UpdateStep& step, const float* parameters,
                    const float* const* state, const GradientSource* sources,
                    std::size_t source_count, std::size_t count, SquareSums& sums) {
  with_measured_formula(rule, step, [&](const auto& formula) {
    using Formula = std::remove_cvref_t<decltype(formula)>;
    LanesOfSquares of_parameters, of_measured;
    alignas(kLineBytes) float sum[kTileFloats], measured[kTileFloats];
    for_each_float_tile(0, count, [&](std::size_t begin, std::size_t size) {
      const float* rows[2 + Formula::kSlots] = {
          gradient_tile(sum, sources, source_count, parameters, begin, size), parameters + begin};
      for (std::size_t slot = 0; slot < Formula::kSlots; ++slot)
        rows[2 + slot] = state[slot] + begin;
      measure_tile(formula, measured, rows, size);
      of_parameters = add_squares(of_parameters, parameters + begin, size);
      of_measured = add_squares(of_measured, measured, size);
    });
    sums = {total(of_parameters), total(of_measured)};
  });
}

}  // namespace
}  // namespace asup::kernels
