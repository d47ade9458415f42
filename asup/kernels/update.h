// Applies an update rule to parameters that lie in a row, as one pass over memory.
//
// All memory is aligned as floats are, not more. The result of a parameter depends on its inputs
// alone, not on its place, on how the row is cut up, or on the instruction set: bits are equal
// everywhere. Nothing is allocated. Safe from any thread on memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "asup/kernels/rule.h"

namespace asup::kernels {

struct UpdateStep {
  double lr = 0;
  std::uint64_t updates = 1;  // of these parameters, this one included: 1 the first time
  double trust_ratio = 1;     // lars, lamb: of the tensor that the parameters are part of

  // Where an update holds only some of a step's samples: what share of them, and what share the
  // updates since the last whole step have gathered. `lr` and `updates` are the whole step's.
  double share = 1;
  double gathered = 0;

  bool is_whole() const { return share == 1 && gathered == 0; }
  // This update gathers the last of the step's samples, to rounding.
  bool ends_step() const { return gathered + share > 1 - 1e-9; }
};

// A part of a gradient. Where a worker computed it at parameters that have changed since, `backup`
// holds those it saw: then it is compensated for the delay by
//   g + lambda · g ⊙ g ⊙ (parameters − backup),
// before weighting. S. Zheng et al., "Asynchronous stochastic gradient descent with delay
// compensation", ICML 2017, arXiv:1609.08326, algorithm 2, with a constant lambda (DC-ASGD-c).
struct GradientSource {
  const float* data = nullptr;
  float weight = 1;
  const float* backup = nullptr;  // none: no compensation
  float lambda = 0;
};

// Its sources, each times its weight, added up from left to right.
using Gradient = std::span<const GradientSource>;

// Changes `count` parameters and their state, and writes the new parameters to each of `copies`
// too. `state` has state_slots(rule) rows of `count` floats, 0 before the first update; for a part
// of a step, rules that gathers_gradients() names have one more, after those.
//
// A part of a step moves parameters and momentum by the power of the step that its share is
// (step_power.h). Second moments change when the step ends, by the mean of its gradients; a part
// that comes before takes them as they would be if the step ended with it.
// What is written must not overlap with anything else, except that a copy may be exactly the memory
// of a source or of a backup, which are read before it is written: a worker's own parameters, which
// it saw and which are to be replaced, need no second place as its backup.
// needs: a source or more; step.updates >= 1
void update(const Rule& rule, const UpdateStep& step, float* parameters, float* const* state,
            Gradient gradient, std::span<float* const> copies, std::size_t count);

// Of a tensor or of some pieces of it, which add up.
struct SquareSums {
  double parameters = 0;
  double gradient = 0;  // or what a rule measures in its place

  SquareSums& operator+=(const SquareSums& piece) {
    parameters += piece.parameters;
    gradient += piece.gradient;
    return *this;
  }
};

// In doubles, added up in the same order on every processor.
double sum_of_squares(const float* data, std::size_t count);
// needs: a source or more
SquareSums sums_of_squares(const float* parameters, Gradient gradient, std::size_t count);

// Of the norms that the ratio of a rule is made of, before the update: `state` and `step` are what
// update() will get, but for the ratio. Of lars the mean gradient of the step so far, of lamb its
// direction. needs: a source or more; needs_whole_tensors(rule)
SquareSums sums_for_ratio(const Rule& rule, const UpdateStep& step, const float* parameters,
                          const float* const* state, Gradient gradient, std::size_t count);

// The factor of the learning rate of a tensor: see update/lars.h and lamb.h; 1 for other rules.
double trust_ratio(const Rule& rule, const SquareSums& sums);

}  // namespace asup::kernels
