#include "asup/parallel/schedule/one_forward_one_backward.h"

#include <algorithm>

namespace asup::parallel {

Schedule one_forward_one_backward(int rank, const PipelineSpec& spec) {
  const int ahead = std::min(spec.ranks - 1 - rank, spec.micro_batches);
  Schedule actions;
  for (int i = 0; i < spec.micro_batches + ahead; ++i) {
    if (i < spec.micro_batches) actions.push_back({Action::Op::forward, rank, i});
    if (i >= ahead) actions.push_back({Action::Op::backward, rank, i - ahead});
  }
  return actions;
}

int one_forward_one_backward_activations(int rank, const PipelineSpec& spec) {
  return std::min(spec.ranks - rank, spec.micro_batches);
}

}  // namespace asup::parallel
