#include "asup/parallel/schedule/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/parallel/schedule/cases.h"
#include "tests/support/xml.h"

namespace asup::parallel {
namespace {

using asup::testing::count_of;
using asup::testing::flaw_of_xml;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::spec_of;

struct Drawn {
  Drawn(const char* name, int ranks, int micro_batches, int chunks = 0)
      : row(find_schedule(name)),
        spec(spec_of(row, ranks, micro_batches, chunks)),
        times(equal_times({}, spec)) {}

  Price price() const { return parallel::price(spec, schedules_of(row, spec), times); }
  std::string text() const { return text_of(spec, price()); }
  std::string svg(const char* title = "title") const { return svg_of(spec, price(), title); }

  const PipelineSchedule& row;
  PipelineSpec spec;
  PipelineTimes times;
};

TEST(DrawingText, HasARowARankAndBlanksForTheBubble) {
  EXPECT_EQ(Drawn("1f1b", 3, 4).text(),
            "rank 0  F0 F1 F2             B0--- F3 B1---    B2---    B3---\n"
            "rank 1     F0 F1       B0--- F2 B1--- F3 B2---    B3---\n"
            "rank 2        F0 B0--- F1 B1--- F2 B2--- F3 B3---\n");
  EXPECT_EQ(Drawn("zb1p", 2, 2).text(),
            "rank 0  F0 F1    I0 W0 I1 W1\n"
            "rank 1     F0 I0 F1 I1 W0 W1\n");
}

TEST(DrawingText, NamesTheChunk) {
  EXPECT_EQ(Drawn("zbv", 1, 1).text(), "rank 0  F0a F0b I0b W0b I0a W0a\n");
}

TEST(DrawingText, ALongStepGoesOnBelow) {
  const std::string text = Drawn("1f1b", 4, 24).text();
  EXPECT_THAT(text, AllOf(HasSubstr("from 0\nrank 0  F0"), HasSubstr("\nfrom 25\nrank 0")));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110u);
  EXPECT_EQ(count_of(text, "F23"), 4u);
}

TEST(DrawingText, OfManyIsShort) {
  const std::string text = Drawn("gpipe", 40, 300).text();
  EXPECT_THAT(text, AllOf(HasSubstr("… and on to 1017\n"), HasSubstr("… and 8 more ranks\n")));
  EXPECT_LT(count_of(text, "\n"), 130u);
}

TEST(DrawingText, OfTimesFarApartStillShowsTheLongOnes) {
  Drawn drawn("1f1b", 2, 3);
  drawn.times.stages[0].forward = 1e-9;
  EXPECT_THAT(drawn.text(), HasSubstr("B2-"));
}

TEST(DrawingSvg, HasABarForEachComputation) {
  const std::string svg = Drawn("zb1p", 4, 8).svg("a <zb1p> & \"more\"");
  EXPECT_EQ(flaw_of_xml(svg), "");
  EXPECT_EQ(count_of(svg, "<g><title>"), 3u * 4 * 8);
  EXPECT_EQ(count_of(svg, ">7</text></g>"), 3u * 4);
  EXPECT_THAT(svg, AllOf(HasSubstr("a &lt;zb1p&gt; &amp; &quot;more&quot;"),
                         HasSubstr("gradient of the weights"), HasSubstr("bubble 11.1 %"),
                         Not(HasSubstr(">backward<")), Not(HasSubstr("<line class=\"signal\"")),
                         HasSubstr("backward_weight of stage 0, micro-batch 0: ")));
}

TEST(DrawingSvg, ShowsMessagesThatTakeTime) {
  Drawn drawn("1f1b", 3, 2);
  drawn.times.latency = 0.5;
  EXPECT_EQ(count_of(drawn.svg(), "<line class=\"signal\""), 2u * 2 * 2);
}

TEST(DrawingSvg, IsWellFormedForEverySchedule) {
  testing::for_each_case(4, 6, [](const PipelineSchedule& schedule, const PipelineSpec& spec) {
    const Price priced = price(spec, schedules_of(schedule, spec), equal_times({}, spec));
    const std::string svg = svg_of(spec, priced, "title");
    EXPECT_EQ(flaw_of_xml(svg), "") << schedule.name;
    EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  });
}

}  // namespace
}  // namespace asup::parallel
