#include "asup/kernels/update.h"

#include <cmath>

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"

namespace asup::kernels {
namespace {

void check_apart(const float* parameters, const float* other, std::size_t count, const char* what) {
  check(other + count <= parameters || parameters + count <= other,
        "kernels: the {} at {} overlaps the {} parameters at {}; it must be apart from them", what,
        fmt::ptr(other), count, fmt::ptr(parameters));
}

}  // namespace

void update(const Rule& rule, const UpdateStep& step, float* parameters, float* const* state,
            Gradient gradient, std::span<float* const> copies, std::size_t count) {
  check(!gradient.empty(), "kernels: nothing to update with: the gradient has no sources");
  check(step.updates >= 1, "kernels: updates count from 1 on; this one is number 0");
  check(step.share > 0 && step.gathered >= 0 && step.gathered < 1,
        "kernels: {} of a step after {} of it", step.share, step.gathered);
  const std::size_t gathering = !step.is_whole() && gathers_gradients(rule) ? 1 : 0;
  const std::size_t slots = state_slots(rule) + gathering;
  if (count == 0) return;
  for (std::size_t i = 0; i < slots; ++i) check_apart(parameters, state[i], count, "state");
  for (const float* copy : copies) check_apart(parameters, copy, count, "copy");
  for (const GradientSource& source : gradient)
    check_apart(parameters, source.data, count, "gradient");
  best_table().update(rule, step, parameters, state, gradient.data(), gradient.size(),
                      copies.data(), copies.size(), count);
}

double sum_of_squares(const float* data, std::size_t count) {
  return best_table().sum_of_squares(data, count);
}

SquareSums sums_of_squares(const float* parameters, Gradient gradient, std::size_t count) {
  check(!gradient.empty(), "kernels: no gradient to take the norm of: it has no sources");
  SquareSums sums;
  best_table().sums_of_squares(parameters, gradient.data(), gradient.size(), count, sums);
  return sums;
}

SquareSums sums_for_ratio(const Rule& rule, const UpdateStep& step, const float* parameters,
                          const float* const* state, Gradient gradient, std::size_t count) {
  check(!gradient.empty(), "kernels: no gradient to take the norm of: it has no sources");
  check(needs_whole_tensors(rule), "kernels: {} takes no norms", name_of(rule.kind));
  SquareSums sums;
  best_table().sums_for_ratio(rule, step, parameters, state, gradient.data(), gradient.size(),
                              count, sums);
  return sums;
}

// The decay of lamb is in what it measures.
double trust_ratio(const Rule& rule, const SquareSums& sums) {
  if (!needs_whole_tensors(rule) || sums.parameters == 0 || sums.gradient == 0) return 1;
  const double norm = std::sqrt(sums.parameters), measured = std::sqrt(sums.gradient);
  const double decay = rule.kind == Rule::Kind::lars ? rule.weight_decay * norm : 0;
  return rule.trust * norm / (measured + decay);
}

}  // namespace asup::kernels
