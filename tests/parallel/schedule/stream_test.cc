#include "asup/parallel/schedule/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "asup/base/error.h"
#include "asup/parallel/schedule/one_forward_one_backward.h"

namespace asup::parallel {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Op = Action::Op;

Schedule stream_of(int rank, const PipelineSpec& spec, int batches) {
  Schedule whole;
  for (int batch = 0; batch < batches; ++batch)
    for (const Action& action : stream_of_batch(rank, spec, batch)) whole.push_back(action);
  for (const Action& action : stream_rest(rank, spec, batches)) whole.push_back(action);
  return whole;
}

template <typename Visit>
void for_each_stretch(Visit visit) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (int m = std::max(1, ranks - 1); m <= 12; ++m)
      for (int batches = 1; batches <= 5; ++batches)
        for (int rank = 0; rank < ranks; ++rank)
          visit(rank, PipelineSpec{.ranks = ranks, .micro_batches = m}, batches);
}

TEST(Stream, IsOneForwardOneBackwardOfAllItsBatches) {
  for_each_stretch([](int rank, const PipelineSpec& spec, int batches) {
    PipelineSpec all = spec;
    all.micro_batches *= batches;
    EXPECT_EQ(stream_of(rank, spec, batches), one_forward_one_backward(rank, all))
        << "rank " << rank << " of " << spec.ranks << ", " << spec.micro_batches << " × "
        << batches;
  });
}

// When a batch begins on a rank, the last but one has come back there: of two batches alone weights
// are needed, and they have had the update of that one.
TEST(Stream, HoldsTwoBatchesAtMost) {
  for_each_stretch([](int rank, const PipelineSpec& spec, int batches) {
    std::map<int, int> back;  // micro-batches, by batch
    for (const Action& action : stream_of(rank, spec, batches)) {
      const int batch = action.micro_batch / spec.micro_batches;
      if (action.op == Op::backward) ++back[batch];
      if (action.op == Op::forward && batch >= 2) {
        EXPECT_EQ(back[batch - 2], spec.micro_batches) << describe(action);
      }
    }
  });
}

// A batch has gone where nothing of it needs the next one.
TEST(Stream, ThePartOfABatchNeedsNoLaterOne) {
  for_each_stretch([](int rank, const PipelineSpec& spec, int batch) {
    for (const Action& action : stream_of_batch(rank, spec, batch))
      EXPECT_LT(action.micro_batch, (batch + 1) * spec.micro_batches);
  });
}

TEST(Stream, RefusesWhatNeedsMoreWeights) {
  EXPECT_THAT([] { require_streams({.ranks = 4, .micro_batches = 2}); },
              ThrowsMessage<BadInput>(HasSubstr("needs 3 micro-batches a batch at least, not 2")));
  EXPECT_THAT([] { require_streams({.ranks = 2, .micro_batches = 4, .chunks = 2}); },
              ThrowsMessage<BadInput>(HasSubstr("one stage on each rank, not 2")));
  EXPECT_NO_THROW(require_streams({.ranks = 4, .micro_batches = 3}));
  EXPECT_NO_THROW(require_streams({.ranks = 1, .micro_batches = 1}));
}

}  // namespace
}  // namespace asup::parallel
