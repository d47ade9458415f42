#include "asup/parallel/schedule/gpipe.h"

namespace asup::parallel {

Schedule gpipe(int rank, const PipelineSpec& spec) {
  Schedule actions;
  for (const Action::Op op : {Action::Op::forward, Action::Op::backward})
    for (int i = 0; i < spec.micro_batches; ++i) actions.push_back({op, rank, i});
  return actions;
}

int gpipe_activations(int /*rank*/, const PipelineSpec& spec) { return spec.micro_batches; }

}  // namespace asup::parallel
