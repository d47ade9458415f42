#include "asup/parallel/schedule/zb1p.h"

#include <algorithm>

namespace asup::parallel {

Schedule zb1p(int rank, const PipelineSpec& spec) {
  const int ahead = std::min(spec.ranks - 1 - rank, spec.micro_batches);
  const int late = rank;  // inputs' gradients between a micro-batch's two
  Schedule actions;
  for (int i = 0; i < spec.micro_batches + ahead + late; ++i) {
    const int back = i - ahead;
    if (i < spec.micro_batches) actions.push_back({Action::Op::forward, rank, i});
    if (back >= 0 && back < spec.micro_batches)
      actions.push_back({Action::Op::backward_input, rank, back});
    if (back >= late) actions.push_back({Action::Op::backward_weight, rank, back - late});
  }
  return actions;
}

int zb1p_activations(int /*rank*/, const PipelineSpec& spec) {
  return std::min(spec.ranks, spec.micro_batches);
}

}  // namespace asup::parallel
