// The pass over memory that update rules share: a tile of the gradient, the rule, the copies.
// Pure; safe from any thread on memory of its own.
#pragma once

#include "asup/kernels/copy.h"
#include "asup/kernels/isa/gradient_loops.h"
#include "asup/kernels/update/adagrad.h"
#include "asup/kernels/update/adam.h"
#include "asup/kernels/update/adamw.h"
#include "asup/kernels/update/asup.h"
#include "asup/kernels/update/lamb.h"
#include "asup/kernels/update/lars.h"
#include "asup/kernels/update/linear_part.h"
#include "asup/kernels/update/merge.h"
#include "asup/kernels/update/momentum.h"
#include "asup/kernels/update/nesterov.h"
#include "asup/kernels/update/parts.h"
#include "asup/kernels/update/rmsprop.h"
#include "asup/kernels/update/sgd.h"

namespace asup::kernels {
namespace {

// `Formula` is a rule as update/ has it: kSlots floats of state a parameter, and apply() for a
// vector of them.
template <typename Formula>
[[gnu::noinline]] void apply_formula(const Formula& formula, float* const* rows,
                                     const float* gradient, std::size_t count) {
  constexpr std::size_t kSlots = Formula::kSlots;
  for_each_line<1 + kSlots, 1>(
      rows, &gradient, count, [formula](std::byte* const* changed, const std::byte* const* read) {
        for (std::size_t at = 0; at < kLineBytes; at += kVectorBytes) {
          Floats parameters = load_vector<Floats>(changed[0] + at);
          Floats state[Formula::kSlots + 1] = {};
          for (std::size_t slot = 0; slot < kSlots; ++slot)
            state[slot] = load_vector<Floats>(changed[1 + slot] + at);
          formula.apply(load_vector<Floats>(read[0] + at), parameters, state);
          store_vector(changed[0] + at, parameters);
          for (std::size_t slot = 0; slot < kSlots; ++slot)
            store_vector(changed[1 + slot] + at, state[slot]);
        }
      });
}

// Calls visit(formula) with the rule's formula for a part of a step.
template <typename Visit>
inline void with_formula_of_part(const Rule& rule, const UpdateStep& step, Visit visit) {
  switch (rule.kind) {
    case Rule::Kind::sgd:
      return visit(LinearPart<false>(rule, step));
    case Rule::Kind::momentum:
    case Rule::Kind::nesterov:
      return visit(LinearPart<true>(rule, step));
    case Rule::Kind::rmsprop:
      if (rule.centered)
        return rule.momentum > 0 ? visit(RmsPropPart<true, true>(rule, step))
                                 : visit(RmsPropPart<true, false>(rule, step));
      return rule.momentum > 0 ? visit(RmsPropPart<false, true>(rule, step))
                               : visit(RmsPropPart<false, false>(rule, step));
    case Rule::Kind::adagrad:
      return visit(AdagradPart(rule, step));
    case Rule::Kind::adam:
      return rule.amsgrad ? visit(AdamPart<true, false>(rule, step))
                          : visit(AdamPart<false, false>(rule, step));
    case Rule::Kind::adamw:
      return rule.amsgrad ? visit(AdamPart<true, true>(rule, step))
                          : visit(AdamPart<false, true>(rule, step));
    case Rule::Kind::lars:
      return needs_whole_tensors(rule) ? visit(LarsPart<true>(rule, step))
                                       : visit(LarsPart<false>(rule, step));
    case Rule::Kind::lamb:
      return visit(LambPart(rule, step));
    case Rule::Kind::asup:
      return visit(AsupPart(rule, step));
    case Rule::Kind::merge:
      return visit(Merge(rule, step));
  }
}

// Calls visit(formula) with the rule's formula for this step.
template <typename Visit>
inline void with_formula(const Rule& rule, const UpdateStep& step, Visit visit) {
  if (!step.is_whole()) return with_formula_of_part(rule, step, visit);
  switch (rule.kind) {
    case Rule::Kind::sgd:
      return visit(Sgd(rule, step));
    case Rule::Kind::momentum:
      return visit(Momentum(rule, step));
    case Rule::Kind::nesterov:
      return visit(Nesterov(rule, step));
    case Rule::Kind::rmsprop:
      if (rule.centered)
        return rule.momentum > 0 ? visit(RmsProp<true, true>(rule, step))
                                 : visit(RmsProp<true, false>(rule, step));
      return rule.momentum > 0 ? visit(RmsProp<false, true>(rule, step))
                               : visit(RmsProp<false, false>(rule, step));
    case Rule::Kind::adagrad:
      return visit(Adagrad(rule, step));
    case Rule::Kind::adam:
      return rule.amsgrad ? visit(Adam<true>(rule, step)) : visit(Adam<false>(rule, step));
    case Rule::Kind::adamw:
      return rule.amsgrad ? visit(AdamW<true>(rule, step)) : visit(AdamW<false>(rule, step));
    case Rule::Kind::lars:
      return visit(Lars(rule, step));
    case Rule::Kind::lamb:
      return visit(Lamb(rule, step));
    case Rule::Kind::asup:
      return visit(Asup(rule, step));
    case Rule::Kind::merge:
      return visit(Merge(rule, step));
  }
}

// Elements after which the copies are written, from the second-level cache. Copies that go around
// the caches want some pages at a time: with them, an update of 32 MB and more with two copies
// takes 0.8 of the time that it takes with plain ones.
constexpr std::size_t kBlockFloats = 16 * kTileFloats;

void update(const Rule& rule, const UpdateStep& step, float* parameters, float* const* state,
            const GradientSource* sources, std::size_t source_count, float* const* copies,
            std::size_t copy_count, std::size_t count) {
  with_formula(rule, step, [&](const auto& formula) {
    using Formula = std::remove_cvref_t<decltype(formula)>;
    alignas(kLineBytes) float sum[kTileFloats];
    const auto update_tile = [&](std::size_t begin, std::size_t size) {
      const float* gradient = gradient_tile(sum, sources, source_count, parameters, begin, size);
      float* rows[1 + Formula::kSlots] = {parameters + begin};
      for (std::size_t slot = 0; slot < Formula::kSlots; ++slot)
        rows[1 + slot] = state[slot] + begin;
      apply_formula(formula, rows, gradient, size);
    };
    for (std::size_t begin = 0; begin < count; begin += kBlockFloats) {
      const std::size_t size = smaller(count - begin, kBlockFloats);
      for_each_float_tile(begin, begin + size, update_tile);
      for (std::size_t i = 0; i < copy_count; ++i)
        copy_piece(copies[i] + begin, parameters + begin, size * sizeof(float),
                   count * sizeof(float));
    }
  });
}

}  // namespace
}  // namespace asup::kernels
