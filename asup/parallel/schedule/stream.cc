#include "asup/parallel/schedule/stream.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::parallel {
namespace {

// Micro-batches that are on their way to the last rank and back when one comes back here.
int ahead_of(int rank, const PipelineSpec& spec) { return spec.ranks - 1 - rank; }

}  // namespace

void require_streams(const PipelineSpec& spec) {
  require(spec.chunks == 1 && spec.placement == Placement::loop,
          "a pipeline that streams has one stage on each rank, not {}", spec.chunks);
  require(
      spec.micro_batches >= std::max(1, spec.ranks - 1),
      "a pipeline of {} ranks that streams needs {} micro-batches a batch at least, not {}: with "
      "fewer, more than two batches are under way, each with weights of its own",
      spec.ranks, spec.ranks - 1, spec.micro_batches);
}

Schedule stream_of_batch(int rank, const PipelineSpec& spec, int batch) {
  const int ahead = ahead_of(rank, spec), first = batch * spec.micro_batches;
  Schedule actions;
  for (int i = first; i < first + spec.micro_batches; ++i) {
    actions.push_back({Action::Op::forward, rank, i});
    if (i >= ahead) actions.push_back({Action::Op::backward, rank, i - ahead});
  }
  return actions;
}

Schedule stream_rest(int rank, const PipelineSpec& spec, int batches) {
  const int end = batches * spec.micro_batches;
  Schedule actions;
  for (int i = std::max(0, end - ahead_of(rank, spec)); i < end; ++i)
    actions.push_back({Action::Op::backward, rank, i});
  return actions;
}

}  // namespace asup::parallel
