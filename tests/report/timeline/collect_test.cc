#include "asup/report/timeline/collect.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"

namespace asup::report {
namespace {

using net::LinkKind;

class Collect : public ::testing::TestWithParam<LinkKind> {};

// Ranks are threads of one process: their clock is one.
TEST_P(Collect, MeasuresClocks) {
  testing::run_ranks(3, GetParam(), [](Job& job) {
    const auto communicator = make_communicator(job);
    const ClockOffset offset = measure_clock(*communicator);
    EXPECT_LE(std::abs(offset.offset), offset.error) << "rank " << job.rank();
    EXPECT_TRUE(job.rank() > 0 || offset.offset == 0);
  });
}

TEST_P(Collect, BringsWhatEveryRankHasDoneToTheFirst) {
  testing::run_ranks(3, GetParam(), [](Job& job) {
    Timeline timeline;
    const TimelineThread thread(&timeline, "training");
    const auto communicator = make_communicator(job);
    TimelineCollector collector(timeline, "rank " + std::to_string(job.rank()), job.rank());
    JobTimeline collected;
    std::vector<float> numbers(1000, 1);
    for (std::int64_t step = 1; step <= 4; ++step) {
      const TimelineScope scope(Activity::step, {.step = step});
      const TimelineLabelled labelled({.bucket = 2});
      communicator->start_all_reduce(buffer_of(std::span(numbers))).wait().or_throw();
      if (step % 2 == 0) collector.measure(*communicator);
      if (step == 2) collector.collect(*communicator, collected);
    }
    collector.collect(*communicator, collected);
    if (job.rank() > 0) {
      EXPECT_TRUE(collected.empty());
      return;
    }
    const auto processes = collected.on_one_clock();
    ASSERT_EQ(processes.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) {
      const TimelinePart& process = processes[static_cast<std::size_t>(rank)];
      EXPECT_EQ(process.name, "rank " + std::to_string(rank));
      std::vector<std::int64_t> steps, exchanges;
      for (const auto& track : process.tracks)
        for (const TimelineEvent& event : track.events) {
          if (event.activity == Activity::step) steps.push_back(event.step);
          if (event.activity != Activity::exchange || event.bucket != 2) continue;
          exchanges.push_back(event.step);
          EXPECT_EQ(event.bytes, 4000);
          EXPECT_STREQ(event.name, "all_reduce");
          EXPECT_NE(event.detail, nullptr) << "the algorithm";
          EXPECT_EQ(track.name, "exchange");
        }
      EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4}));
      EXPECT_EQ(exchanges, (std::vector<std::int64_t>{1, 2, 3, 4}));
    }
  });
}

// Whoever takes no part records nothing, and neither do its communicators.
TEST_P(Collect, NothingIsRecordedByThoseWhoTakeNoPart) {
  testing::run_ranks(2, GetParam(), [](Job& job) {
    Timeline timeline;
    const auto communicator = make_communicator(job);
    communicator->barrier().or_throw();
    TimelineCollector collector(timeline, "rank", job.rank());
    JobTimeline collected;
    collector.collect(*communicator, collected);
    for (const TimelinePart& process : collected.on_one_clock())
      EXPECT_TRUE(process.tracks.empty());
  });
}

INSTANTIATE_TEST_SUITE_P(Links, Collect,
                         ::testing::Values(LinkKind::inproc, LinkKind::shm, LinkKind::tcp),
                         [](const auto& info) { return testing::name_of(info.param); });

}  // namespace
}  // namespace asup::report
