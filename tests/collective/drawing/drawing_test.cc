#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/collective/drawing/svg.h"
#include "asup/collective/drawing/text.h"
#include "asup/collective/plan/build.h"
#include "tests/collective/cases.h"
#include "tests/support/xml.h"

namespace asup::collective::drawing {
namespace {

using asup::testing::count_of;
using asup::testing::flaw_of_xml;
using ::testing::HasSubstr;
using ::testing::Not;

Spec spec_of(Collective collective, int ranks, std::size_t count) {
  return {.collective = collective, .ranks = ranks, .count = count};
}

Timeline timeline_by(const char* algorithm, const Spec& spec) {
  return timeline_of(spec, testing::plans_of(find_algorithm(spec.collective, algorithm), spec));
}

TEST(Timeline, BeginsWhenBothRanksHaveCome) {
  // 0 tells 1, 1 tells 2; 2 works first.
  const Spec spec = spec_of(Collective::broadcast, 3, 4);
  const auto lane = [](Lane rounds) { return Plan{.lanes = {std::move(rounds)}, .scratch = 0}; };
  const Timeline timeline = timeline_of(
      spec, std::vector<Plan>{lane({{send(1, in(0, 4))}}),
                              lane({{recv(0, out(0, 4))}, {send(2, out(0, 4))}}),
                              lane({{copy(in(0, 4), out(0, 4))}, {recv(1, out(0, 4))}})});
  ASSERT_EQ(timeline.events.size(), 3u);
  EXPECT_EQ(timeline.ticks, 2);
  EXPECT_EQ(timeline.messages(), 2u);
  EXPECT_EQ(describe(timeline.events[0], spec), "0 -> 1: [0, 4), copied");
  EXPECT_EQ(timeline.events[1].from, 2);
  EXPECT_EQ(timeline.events[1].tick, 1);
  EXPECT_FALSE(timeline.events[1].is_message());
  EXPECT_EQ(timeline.events[2].to, 2);
  EXPECT_EQ(timeline.events[2].tick, 2);
}

TEST(Timeline, OfPlansThatDoNotMeetNamesTheFlaw) {
  const Spec spec = spec_of(Collective::broadcast, 2, 4);
  const std::vector<Plan> plans = {{.lanes = {{{send(1, in(0, 4))}}}, .scratch = 0}, {}};
  EXPECT_THAT([&] { timeline_of(spec, plans); },
              ::testing::ThrowsMessage<Error>(HasSubstr("rank 1 never receives it")));
}

TEST(Text, TellsTheRing) {
  const Spec spec = spec_of(Collective::all_reduce, 3, 192);
  EXPECT_EQ(text_of(spec, timeline_by("ring", spec)),
            "  1\n"
            "    0 -> 1: [0, 64), added\n"
            "    1 -> 2: [64, 128), added\n"
            "    2 -> 0: [128, 192), added\n"
            "  2\n"
            "    0 -> 1: [128, 192), added, complete\n"
            "    1 -> 2: [0, 64), added, complete\n"
            "    2 -> 0: [64, 128), added, complete\n"
            "  3\n"
            "    0 -> 1: [64, 128), copied\n"
            "    1 -> 2: [128, 192), copied\n"
            "    2 -> 0: [0, 64), copied\n"
            "  4\n"
            "    0 -> 1: [0, 64), copied\n"
            "    1 -> 2: [64, 128), copied\n"
            "    2 -> 0: [128, 192), copied\n");
}

TEST(Text, NamesAreasThatDiffer) {
  Spec spec = spec_of(Collective::all_reduce, 2, 128);
  spec.in_place = false;
  EXPECT_THAT(text_of(spec, timeline_by("ring", spec)),
              HasSubstr("0 -> 1: input[0, 64), added as output[0, 64), complete"));
}

TEST(Text, OfManyRanksIsShort) {
  const Spec spec = spec_of(Collective::all_reduce, 100, 6400);
  const std::string text = text_of(spec, timeline_by("ring", spec));
  EXPECT_LT(count_of(text, "\n"), 1000u);
  EXPECT_THAT(text, HasSubstr("… and 84 more like these\n"));
  EXPECT_THAT(text, HasSubstr("  … 158 more\n"));
  EXPECT_THAT(text, HasSubstr("\n  198\n"));
}

TEST(Text, OfOneRankSaysSo) {
  const Spec spec = spec_of(Collective::all_reduce, 1, 64);
  EXPECT_EQ(text_of(spec, timeline_by("ring", spec)), "  nothing to do\n");
}

TEST(Svg, HasAnArrowForEachMessage) {
  const Spec spec = spec_of(Collective::all_reduce, 6, 384);
  const Timeline timeline = timeline_by("ring", spec);
  const std::string svg = svg_of(spec, timeline, "a <ring> & \"more\"");
  EXPECT_EQ(flaw_of_xml(svg), "");
  EXPECT_EQ(count_of(svg, "<g><title>"), timeline.messages());
  EXPECT_EQ(count_of(svg, "[320, 384)</text>"), 10u);  // 2 (n - 1) hops of the block
  EXPECT_THAT(svg, HasSubstr("a &lt;ring&gt; &amp; &quot;more&quot;"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(Svg, IsWellFormedForEveryAlgorithm) {
  for (const Algorithm& algorithm : algorithms()) {
    if (is_point_to_point(algorithm.collective)) continue;
    for (const int n : {1, 2, 6, 16}) {
      Spec spec = spec_of(algorithm.collective, n,
                          algorithm.collective == Collective::barrier ? 0 : 64 * n);
      spec.shared = algorithm.needs_shared;
      spec.stage = algorithm.needs_stage;
      spec.slice = 32;
      const Timeline timeline = timeline_of(spec, testing::plans_of(algorithm, spec));
      const std::string svg = svg_of(spec, timeline, "title");
      EXPECT_EQ(flaw_of_xml(svg), "") << algorithm.name << " " << n;
      EXPECT_THAT(svg, Not(HasSubstr("nan")));
      EXPECT_FALSE(text_of(spec, timeline).empty());
    }
  }
}

}  // namespace
}  // namespace asup::collective::drawing
