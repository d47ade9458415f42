// What is executed is what was verified: there is no second path.
#include "asup/collective/trace.h"

#include <gtest/gtest.h>

#include "asup/collective/mesh_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/trace.h"

namespace asup {
namespace {

using collective::Collective;
using net::LinkKind;

// Every algorithm there is, at several sizes, in memory that it can work on.
class Trace : public ::testing::TestWithParam<LinkKind> {};

TEST_P(Trace, EveryAlgorithmExecutesVerifiedPlans) {
  const bool reachable = GetParam() != LinkKind::tcp;
  for (const int ranks : {2, 3, 5}) {
    testing::TraceBook book(ranks);
    int calls = 0;
    testing::run_ranks(ranks, GetParam(), [&](Job& job) {
      CommunicatorOptions options;
      options.trace = book.sink(job.rank());
      auto communicator = make_communicator(job, options);
      int mine = 0;
      for (const collective::Algorithm& algorithm : collective::algorithms()) {
        if (algorithm.collective == Collective::send || algorithm.collective == Collective::recv ||
            ((algorithm.needs_shared || algorithm.needs_stage) && !reachable))
          continue;
        for (const std::size_t block : {1ul, 1000ul, 200'000ul}) {
          const auto n = static_cast<std::size_t>(job.size());
          auto whole = communicator->allocate(block * n * sizeof(float));
          auto part = communicator->allocate(block * sizeof(float));
          const Buffer full{whole->bytes().data(), block * n, Dtype::f32};
          const Buffer own{part->bytes().data(), block, Dtype::f32};
          Call call;
          call.collective = algorithm.collective;
          call.algorithm = algorithm.name;
          call.input = algorithm.collective == Collective::all_gather ? own : full;
          call.output = algorithm.collective == Collective::reduce_scatter ? own : full;
          if (algorithm.collective == Collective::barrier) call.input = call.output = {};
          communicator->run(call).or_throw();
          ++mine;
        }
      }
      if (job.rank() == 0) calls = mine;
    });
    EXPECT_GE(calls, 12);
    EXPECT_EQ(book.expect_verified(), calls);
  }
}

INSTANTIATE_TEST_SUITE_P(Links, Trace,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace asup
