#include "asup/parallel/schedule/interleaved.h"

#include <algorithm>

namespace asup::parallel {
namespace {

struct Groups {
  explicit Groups(const PipelineSpec& spec)
      : count(std::max(1, spec.micro_batches / spec.ranks)),
        size(spec.micro_batches / count),
        larger(spec.micro_batches % count) {}

  int count;   // of groups
  int size;    // of the smaller ones
  int larger;  // so many groups have one more

  int size_of(int group) const { return size + (group < larger ? 1 : 0); }
};

// The rank's forwards, or backwards, in their order.
Schedule passes(Action::Op op, int rank, const PipelineSpec& spec) {
  const Groups groups(spec);
  Schedule actions;
  int first = 0;  // micro-batch of the group
  for (int group = 0; group < groups.count; first += groups.size_of(group++))
    for (int chunk = 0; chunk < spec.chunks; ++chunk) {
      const int through = op == Action::Op::forward ? chunk : spec.chunks - 1 - chunk;
      for (int i = 0; i < groups.size_of(group); ++i)
        actions.push_back({op, through * spec.ranks + rank, first + i});
    }
  return actions;
}

// Forwards before the first backward, but for the one right before it: a group through all chunks
// but the last, and two for each rank behind, one on the way there and one on the way back.
int forwards_ahead(int rank, const PipelineSpec& spec) {
  return std::min((spec.chunks - 1) * Groups(spec).size_of(0) + 2 * (spec.ranks - 1 - rank),
                  spec.chunks * spec.micro_batches);
}

}  // namespace

Schedule interleaved(int rank, const PipelineSpec& spec) {
  const Schedule forwards = passes(Action::Op::forward, rank, spec);
  const Schedule backwards = passes(Action::Op::backward, rank, spec);
  const auto ahead = static_cast<std::size_t>(forwards_ahead(rank, spec));
  Schedule actions;
  for (std::size_t i = 0; i < forwards.size() + ahead; ++i) {
    if (i < forwards.size()) actions.push_back(forwards[i]);
    if (i >= ahead) actions.push_back(backwards[i - ahead]);
  }
  return actions;
}

int interleaved_activations(int rank, const PipelineSpec& spec) {
  return std::min(forwards_ahead(rank, spec) + 1, spec.chunks * spec.micro_batches);
}

}  // namespace asup::parallel
