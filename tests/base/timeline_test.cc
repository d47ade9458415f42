#include "asup/base/timeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace asup {
namespace {

TimelineEvent numbered(std::int64_t number) {
  TimelineEvent event;
  event.begin = number;
  event.end = number + 1;
  event.bytes = -number;
  event.step = 2 * number;
  return event;
}

std::vector<TimelineEvent> events_of(Timeline& timeline, const std::string& track) {
  for (auto& [name, taken] : timeline.take())
    if (name == track) return taken.events;
  return {};
}

TEST(TimelineTrack, GivesWhatWasRecordedSinceTheLastTime) {
  TimelineTrack track("t", 8);
  for (int i = 0; i < 3; ++i) track.record(numbered(i));
  EXPECT_EQ(track.take().events.size(), 3u);
  EXPECT_TRUE(track.take().events.empty());
  track.record(numbered(7));
  const auto taken = track.take();
  ASSERT_EQ(taken.events.size(), 1u);
  EXPECT_EQ(taken.events[0].begin, 7);
  EXPECT_EQ(taken.dropped, 0u);
}

TEST(TimelineTrack, NewEventsTakeThePlaceOfTheOldest) {
  TimelineTrack track("t", 8);
  for (int i = 0; i < 21; ++i) track.record(numbered(i));
  const auto taken = track.take();
  ASSERT_FALSE(taken.events.empty());
  EXPECT_EQ(taken.events.back().begin, 20);
  // The slot of the next one may be in use.
  EXPECT_EQ(taken.events.size(), 7u);
  EXPECT_EQ(taken.dropped, 14u);
  EXPECT_EQ(taken.events.front().begin, 14);
}

// What is taken while another thread records is whole, in order, and with what was lost all there
// was.
TEST(TimelineTrack, IsReadWhileItIsWritten) {
  constexpr std::int64_t kEvents = 200'000;
  TimelineTrack track("t", 64);
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    for (std::int64_t i = 0; i < kEvents; ++i) track.record(numbered(i));
    ended = true;
  });
  std::int64_t next = 0;
  const auto take = [&] {
    const auto taken = track.take();
    next += static_cast<std::int64_t>(taken.dropped);
    for (const TimelineEvent& event : taken.events) {
      ASSERT_EQ(event.begin, next);
      ASSERT_EQ(event.end, next + 1);
      ASSERT_EQ(event.bytes, -next);
      ASSERT_EQ(event.step, 2 * next);
      ++next;
    }
  };
  while (!ended) take();
  writer.join();
  take();
  EXPECT_EQ(next, kEvents);
}

TEST(TimelineTrack, KeepsNamesWithinBounds) {
  TimelineTrack track("t", 8);
  const char* kept = track.keep(std::string("aten::") + "add");
  EXPECT_STREQ(kept, "aten::add");
  EXPECT_EQ(track.keep("aten::add"), kept);
  for (int i = 0; i < 10'000; ++i) track.keep(std::to_string(i));
  EXPECT_STREQ(track.keep("one more"), "…");
  EXPECT_EQ(track.keep("aten::add"), kept);
}

TEST(Timeline, AThreadRecordsWhileItTakesPart) {
  Timeline timeline;
  { const TimelineScope before(Activity::forward); }
  {
    const TimelineThread thread(&timeline, "training");
    const TimelineScope scope(Activity::forward);
  }
  { const TimelineScope after(Activity::forward); }
  EXPECT_EQ(events_of(timeline, "training").size(), 1u);
}

TEST(Timeline, ScopesTakeLabelsFromOuterOnes) {
  Timeline timeline;
  {
    const TimelineThread thread(&timeline, "training");
    const TimelineScope step(Activity::step, {.step = 5, .bytes = 9});
    const TimelineScope forward(Activity::forward, {.stage = 1, .micro_batch = 3});
    const TimelineScope inner("mine");
  }
  const auto events = events_of(timeline, "training");
  ASSERT_EQ(events.size(), 3u);  // as they end
  EXPECT_STREQ(events[0].name, "mine");
  EXPECT_EQ(events[0].step, 5);
  EXPECT_EQ(events[0].micro_batch, 3);
  EXPECT_EQ(events[0].bytes, -1) << "bytes are an event's own";
  EXPECT_EQ(events[1].activity, Activity::forward);
  EXPECT_EQ(events[1].stage, 1);
  EXPECT_EQ(events[2].stage, -1);
  EXPECT_LE(events[2].begin, events[1].begin);
  EXPECT_LE(events[1].end, events[2].end);
}

TEST(Timeline, RecordsOnlyTheStepsThatAreWanted) {
  Timeline timeline({2, 3});
  {
    const TimelineThread thread(&timeline, "training");
    for (std::int64_t i = 1; i <= 5; ++i) {
      const TimelineScope step(Activity::step, {.step = i});
      const TimelineScope forward(Activity::forward);
    }
    const TimelineScope test(Activity::test);
  }
  const auto events = events_of(timeline, "training");
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].step, 2);
  EXPECT_EQ(events[3].step, 3);
  EXPECT_EQ(events[4].activity, Activity::test) << "what is in no step is there";
}

TEST(Timeline, TwoInOneProcessDoNotMix) {
  Timeline first, second;
  const TimelineThread outer(&first, "a");
  {
    const TimelineThread inner(&second, "b");
    const TimelineScope scope(Activity::wait);
  }
  {
    const TimelineThread none(nullptr, "");
    const TimelineScope scope(Activity::wait);
  }
  { const TimelineScope scope(Activity::data); }
  const auto events = events_of(first, "a");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].activity, Activity::data);
  EXPECT_EQ(events_of(second, "b").size(), 1u);
}

TEST(Timeline, ATrackThatWasGivenBackIsUsedAgain) {
  Timeline timeline;
  for (int i = 0; i < 3; ++i)
    std::thread([&] {
      const TimelineThread thread(&timeline, "data");
      const TimelineScope scope(Activity::load);
    }).join();
  const auto held = timeline.track("data");
  const auto other = timeline.track("data");
  EXPECT_NE(held, other);
  const auto taken = timeline.take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].taken.events.size(), 3u);
}

TEST(Timeline, CountersHaveAValue) {
  Timeline timeline;
  timeline_counter("queue", 1);
  const TimelineThread thread(&timeline, "training");
  timeline_counter("queue", 4);
  const auto events = events_of(timeline, "training");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, TimelineEvent::Kind::counter);
  EXPECT_EQ(events[0].end, 4);
}

TEST(Timeline, ActivitiesHaveNames) {
  for (int i = 0; i < kActivities; ++i)
    EXPECT_FALSE(name_of(static_cast<Activity>(i)).empty()) << i;
  EXPECT_EQ(name_of(Activity::backward_weight), "weight gradient");
  EXPECT_EQ(name_of(Activity::program), "program");
}

}  // namespace
}  // namespace asup
