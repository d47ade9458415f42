// Those who are left of a job find together, or learn why they cannot.
#include "asup/sync/recovery.h"

#include <gtest/gtest.h>

#include <barrier>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/thrown.h"

namespace asup::sync {
namespace {

// Rank 2 of three leaves; the others come to regroup().
void lose_one(const std::function<void(Job&, Communicator&)>& go_on) {
  std::barrier all_are_here(3);
  testing::run_ranks(3, net::LinkKind::inproc, [&](Job& job) {
    CommunicatorOptions options;
    options.timeout = testing::kPatience;
    const auto communicator = make_communicator(job, options);
    all_are_here.arrive_and_wait();
    if (job.rank() == 2) return;
    EXPECT_FALSE(communicator->barrier().ok());
    go_on(job, *communicator);
  });
}

TEST(Recovery, TellsWhoWasLostAndWhatOthersNote) {
  lose_one([](Job& job, Communicator& communicator) {
    Recovery recovery(job, {&communicator});
    const auto change = recovery.regroup(10 + job.rank());
    ASSERT_TRUE(change.has_value());
    EXPECT_EQ(change->lost, std::vector<int>{2});
    EXPECT_EQ(change->notes, (std::vector<std::int64_t>{10, 11}));
    EXPECT_EQ(recovery.left(), (std::vector<int>{0, 1}));
    communicator.barrier().or_throw();
  });
}

// They try once more where somebody else was lost meanwhile, and nobody was.
TEST(Recovery, EndsWhereThoseWhoUseTheCommunicatorsCannotGoOn) {
  lose_one([](Job& job, Communicator& communicator) {
    int tries = 0;
    Recovery recovery(job, {&communicator}, [&] {
      ++tries;
      throw PeerLost("what it had is gone with it");
    });
    EXPECT_EQ(testing::message_of<PeerLost>([&] { (void)recovery.regroup(); }),
              "what it had is gone with it");
    EXPECT_EQ(tries, 1);
  });
}

}  // namespace
}  // namespace asup::sync
