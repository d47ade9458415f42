#include "asup/report/timeline/job_timeline.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"

namespace asup::report {
namespace {

TimelineEvent span(Activity activity, std::int64_t begin, std::int64_t end,
                   std::int64_t step = -1) {
  TimelineEvent event;
  event.activity = activity;
  event.begin = begin;
  event.end = end;
  event.step = step;
  return event;
}

TimelinePart part_of(std::uint64_t process, int order, std::vector<TimelineEvent> events,
                     std::uint64_t dropped = 0) {
  TimelinePart part{.process = process, .name = "rank " + std::to_string(order), .host = "here"};
  part.order = order;
  part.tracks.push_back({"training", dropped, std::move(events)});
  return part;
}

TEST(TimelinePart, ComesBackAsItWas) {
  TimelineEvent named = span(Activity::exchange, 5, 9, 3);
  named.name = "all_reduce";
  named.detail = "ring";
  named.bytes = 1 << 20;
  named.stage = 1;
  named.micro_batch = 2;
  named.bucket = 4;
  TimelinePart part = part_of(17, 1, {named, span(Activity::wait, -4, 6)}, 8);
  part.clock = {{100, -50, 3}};
  TimelineNames names;
  const TimelinePart back = unpack(pack(part), names);
  EXPECT_EQ(back.process, 17u);
  EXPECT_EQ(back.name, "rank 1");
  EXPECT_EQ(back.host, "here");
  ASSERT_EQ(back.clock.size(), 1u);
  EXPECT_EQ(back.clock[0].offset, -50);
  ASSERT_EQ(back.tracks.size(), 1u);
  EXPECT_EQ(back.tracks[0].dropped, 8u);
  ASSERT_EQ(back.tracks[0].events.size(), 2u);
  const TimelineEvent& event = back.tracks[0].events[0];
  EXPECT_STREQ(event.name, "all_reduce");
  EXPECT_STREQ(event.detail, "ring");
  EXPECT_EQ(event.bytes, 1 << 20);
  EXPECT_EQ(event.micro_batch, 2);
  EXPECT_EQ(event.activity, Activity::exchange);
  EXPECT_EQ(back.tracks[0].events[1].begin, -4);
  EXPECT_EQ(back.tracks[0].events[1].name, nullptr);
}

// A peer's bytes are looked at before they are believed: wherever they end, and whatever is in
// them.
TEST(TimelinePart, RefusesBytesThatMakeNoSense) {
  TimelinePart part = part_of(1, 0, {span(Activity::wait, 1, 2)});
  part.clock = {{1, 2, 3}};
  const std::string whole = pack(part);
  TimelineNames names;
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_THROW(unpack(whole.substr(0, size), names), BadInput) << size;
  std::string strange = whole;
  strange[strange.size() - 4] = '\x7f';  // the activity
  EXPECT_THROW(unpack(strange, names), BadInput);
  constexpr std::int64_t kNever = std::int64_t{1} << 62;
  for (const auto& [begin, end] : {std::pair{9l, 5l}, {-kNever, 0l}, {0l, kNever}})
    EXPECT_THROW(unpack(pack(part_of(1, 0, {span(Activity::wait, begin, end)})), names), BadInput);
  part.clock = {{1, kNever, 3}};
  EXPECT_THROW(unpack(pack(part), names), BadInput);
  std::string endless = whole;
  for (std::size_t at = 8; at + 8 <= endless.size(); at += 8) {
    endless = whole;
    endless.replace(at, 8, 8, '\xff');
    try {
      unpack(endless, names);
    } catch (const BadInput&) {
    }
  }
}

TEST(JobTimeline, KeepsTheNewestWithinItsBound) {
  JobTimeline timeline(10);
  for (int i = 0; i < 5; ++i) {
    std::vector<TimelineEvent> events;
    for (int k = 0; k < 4; ++k)
      events.push_back(span(Activity::wait, 10 * (4 * i + k), 10 * (4 * i + k) + 5));
    timeline.add(pack(part_of(1, 0, events)));
  }
  const auto processes = timeline.processes();
  ASSERT_EQ(processes.size(), 1u);
  const auto& track = processes[0]->tracks.at(0);
  EXPECT_EQ(track.events.size(), 10u);
  EXPECT_EQ(track.dropped, 10u);
  EXPECT_EQ(track.events.front().begin, 100);
}

TEST(JobTimeline, PutsProcessesInOrderAndOnOneClock) {
  JobTimeline timeline;
  TimelinePart second = part_of(2, 1, {span(Activity::wait, 1'000'100, 1'000'200)});
  second.clock = {{1'000'000, -1'000'000, 1}};
  timeline.add(pack(second));
  TimelinePart later = part_of(2, 1, {span(Activity::wait, 1'000'900, 1'001'000)});
  later.clock = {{1'001'000, -1'000'100, 1}};
  timeline.add(pack(later));
  timeline.add(pack(part_of(1, 0, {span(Activity::wait, 150, 160)})));
  const auto all = timeline.on_one_clock();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "rank 0");
  EXPECT_EQ(all[0].tracks[0].events[0].begin, 150);
  const auto& events = all[1].tracks[0].events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].begin, 90);
  EXPECT_EQ(events[1].begin, 810);
  EXPECT_EQ(events[1].end, 900);
}

// Two tracks of one name stay two, whenever they tell.
TEST(JobTimeline, TracksOfOneNameStayApart) {
  JobTimeline timeline;
  for (int i = 0; i < 3; ++i) {
    TimelinePart part = part_of(1, 0, {span(Activity::wait, i, i + 1)});
    part.tracks.push_back({"training", 0, {span(Activity::data, 10 * i, 10 * i + 1)}});
    timeline.add(pack(part));
  }
  const auto& tracks = timeline.processes()[0]->tracks;
  ASSERT_EQ(tracks.size(), 2u);
  for (const TimelineEvent& event : tracks[0].events) EXPECT_EQ(event.activity, Activity::wait);
  EXPECT_EQ(tracks[1].events.size(), 3u);
}

TEST(JobTimeline, SharesItsMemoryAmongProcesses) {
  EXPECT_EQ(JobTimeline::share_of_process(1), JobTimeline::kMostOfProcess);
  EXPECT_EQ(JobTimeline::share_of_process(100), 20'000u);
  EXPECT_EQ(JobTimeline::share_of_process(100'000), 2'000u);
}

}  // namespace
}  // namespace asup::report
