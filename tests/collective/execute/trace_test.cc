// What is executed is what was verified: there is no second path.
#include "asup/collective/execute/trace.h"

#include <gtest/gtest.h>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/collective/sample.h"
#include "tests/support/ranks.h"
#include "tests/support/trace.h"

namespace asup {
namespace {

using collective::Collective;
using net::LinkKind;

// Every algorithm there is, on small samples and on ones of several lanes, in memory that it can
// work on.
class Trace : public ::testing::TestWithParam<LinkKind> {
 protected:
  // Returns how many samples it ran.
  int run_samples(Job& job, collective::TraceSink trace, std::size_t count) const {
    const bool reachable = GetParam() != LinkKind::tcp;
    CommunicatorOptions options;
    options.trace = std::move(trace);
    for (int r = 0; r < job.size(); ++r) options.hosts.push_back(r / 2);
    auto communicator = make_communicator(job, options);
    std::mt19937 random(7);
    int samples = 0;
    for (const collective::Algorithm& algorithm : collective::algorithms()) {
      if (is_point_to_point(algorithm.collective) ||
          ((algorithm.needs_shared || algorithm.needs_stage) && !reachable))
        continue;
      auto sample = collective::testing::draw_sample(algorithm, job.size(), reachable, random);
      if (count > 0 && sample.spec.counts.empty() && algorithm.collective != Collective::barrier)
        sample.spec.count = count;
      collective::testing::run_sample(*communicator, sample);
      ++samples;
    }
    return samples;
  }

  void expect_verified(int ranks, std::size_t count) {
    testing::TraceBook book(ranks);
    int samples = 0;
    testing::run_ranks(ranks, GetParam(), [&](Job& job) {
      const int mine = run_samples(job, book.sink(job.rank()), count);
      if (job.rank() == 0) samples = mine;
    });
    EXPECT_GE(samples, 20);
    EXPECT_GE(book.expect_verified(), samples) << "a sample may ask for more than one call";
  }
};

TEST_P(Trace, EveryAlgorithmExecutesVerifiedPlans) {
  for (const int ranks : {2, 3, 5, 8}) expect_verified(ranks, 0);
}

TEST_P(Trace, EveryAlgorithmExecutesVerifiedPlansInSeveralLanes) { expect_verified(3, 600'000); }

INSTANTIATE_TEST_SUITE_P(Links, Trace,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace asup
