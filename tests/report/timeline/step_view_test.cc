#include "asup/report/timeline/step_view.h"

#include <gtest/gtest.h>

#include "asup/report/timeline/step_picture.h"

namespace asup::report {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TimelineEvent span(Activity activity, std::int64_t begin_ms, std::int64_t end_ms,
                   std::int64_t step) {
  TimelineEvent event;
  event.activity = activity;
  event.begin = begin_ms * kMs;
  event.end = end_ms * kMs;
  event.step = step;
  return event;
}

// Steps of 10, 30, 20 ms; this process begins `late` ms later than the first.
TimelinePart process(int rank, std::int64_t late) {
  TimelinePart part{.process = static_cast<std::uint64_t>(rank),
                    .name = "rank " + std::to_string(rank)};
  TimelinePart::Track training{.name = "training"}, exchange{.name = "exchange"};
  std::int64_t at = late;
  for (const auto& [step, length] : {std::pair(1, 10), std::pair(2, 30), std::pair(3, 20)}) {
    training.events.push_back(span(Activity::step, at, at + length, step));
    training.events.push_back(span(Activity::forward, at + 1, at + 3, step));
    training.events.push_back(span(Activity::backward, at + 3, at + length - 2, step));
    training.events.push_back(span(Activity::wait, at + length - 4, at + length - 2, step));
    exchange.events.push_back(span(Activity::exchange, at + 4, at + length - 2, step));
    at += length;
  }
  training.events.push_back(span(Activity::test, at + 50, at + 100, -1));
  part.tracks = {exchange, training};
  return part;
}

TEST(StepView, TheTypicalStepTakesTheMedianTimeAndHasAllRanks) {
  const auto window = typical_step({process(0, 0), process(1, 2)});
  ASSERT_TRUE(window);
  EXPECT_EQ(window->step, 3);
  EXPECT_EQ(window->begin, 40 * kMs);
  EXPECT_EQ(window->end, 62 * kMs);
}

TEST(StepView, ThereIsNoneWithoutSteps) {
  TimelinePart server{.process = 1, .name = "server 0"};
  server.tracks.push_back({"updates", 0, {span(Activity::update, 0, 1, -1)}});
  EXPECT_FALSE(typical_step({server}));
  EXPECT_TRUE(time_shares({server}).empty());
}

TEST(StepView, EachMomentCountsForTheInnermostSpan) {
  const auto shares = time_shares({process(0, 0)});
  ASSERT_EQ(shares.size(), 1u);
  const auto ms = [&](Activity activity) {
    return shares[0].seconds[static_cast<std::size_t>(activity)] * 1e3;
  };
  EXPECT_EQ(shares[0].steps, 3u);
  EXPECT_NEAR(shares[0].step_seconds, 0.060, 1e-9);
  EXPECT_NEAR(ms(Activity::forward), 6, 1e-6);
  EXPECT_NEAR(ms(Activity::wait), 6, 1e-6);
  EXPECT_NEAR(ms(Activity::backward), 5 + 25 + 15 - 6, 1e-6);
  EXPECT_NEAR(ms(Activity::step), 3 * 3, 1e-6) << "what nothing says";
  EXPECT_EQ(ms(Activity::test), 0) << "between steps";
  EXPECT_NEAR(shares[0].exchange_seconds, 0.060 - 3 * 0.006, 1e-9);
}

TEST(StepView, KnowsHowDeepSpansLie) {
  const auto part = process(0, 0);
  const auto deep = depths(part.tracks[1]);
  EXPECT_EQ(std::vector<int>(deep.begin(), deep.begin() + 4), (std::vector<int>{0, 1, 1, 2}));
}

TEST(StepPicture, HasARowForEachTrackAndSaysWhatIsInIt) {
  auto first = process(0, 0), second = process(1, 2);
  second.tracks[1].events[9].name = "a <b> & \"c\"";
  const auto picture = draw_step({first, second}, *typical_step({first, second}));
  EXPECT_NE(picture.svg.find(">rank 0<"), std::string::npos);
  EXPECT_NE(picture.svg.find(">rank 1<"), std::string::npos);
  EXPECT_NE(picture.svg.find("forward: 2.00 ms"), std::string::npos);
  EXPECT_EQ(picture.svg.find("<b>"), std::string::npos);
  EXPECT_NE(picture.svg.find("a &lt;b&gt; &amp; &quot;c&quot;"), std::string::npos);
  const std::vector<Activity> seen{Activity::forward, Activity::backward, Activity::exchange,
                                   Activity::wait};
  EXPECT_EQ(picture.activities, seen);
}

TEST(StepPicture, IsBounded) {
  TimelinePart part{.process = 1, .name = "rank 0"};
  TimelinePart::Track track{.name = "training"};
  track.events.push_back(span(Activity::step, 0, 200'000, 1));
  for (int i = 0; i < 100'000; ++i)
    track.events.push_back(span(Activity::forward, 2 * i, 2 * i + 1, 1));
  part.tracks = {track};
  std::vector<TimelinePart> all(100, part);
  EXPECT_LT(draw_step(all, *typical_step(all)).svg.size(), 10'000'000u);
}

}  // namespace
}  // namespace asup::report
