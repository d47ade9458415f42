#include "asup/bench/compare/accuracy_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "asup/bench/compare/accuracy_page.h"
#include "asup/bench/compare/line_chart.h"
#include "asup/report/format.h"

namespace asup::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

Figures figures(double to_target, double seconds, double accuracy, double bytes) {
  Figures run;
  run.curve = {{50, seconds / 2, accuracy / 2}, {100, seconds, accuracy}};
  if (to_target > 0) run.seconds_to_target = to_target;
  run.seconds = seconds;
  run.accuracy = accuracy;
  run.samples = 6000;
  run.bytes = bytes;
  run.idle = 0.5;
  return run;
}

// Four workers of 500 samples a second, the last three times slower: 1666.7 together.
const AccuracyScene kScene{.workers = 4, .slow = 3, .sample_ms = 2, .target = 0.8};

std::vector<WayRuns> made_up() {
  return {{{"allreduce", "--sync allreduce"},
           {figures(20, 36, 0.85, 400e6), figures(30, 36, 0.86, 400e6)},
           false,
           "sgd",
           0.05},
          {{"diloco", "--sync diloco"},
           {figures(4, 3.6, 0.84, 4e6), figures(6, 3.6, 0.87, 4e6)},
           false,
           "adamw",
           0.001},
          {{"<late>", "--sync \"x\""}, {figures(4, 4, 0.8, 8e6), figures(0, 4, 0.7, 8e6)}}};
}

TEST(AccuracyRows, StandBesideAllReduce) {
  const auto rows = accuracy_rows(kScene, made_up());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_FALSE(rows[0].times_sooner || rows[0].points || rows[0].times_fewer_bytes);
  EXPECT_THAT(rows[1].times_sooner, Optional(5.0));
  EXPECT_THAT(rows[1].times_fewer_bytes, Optional(100.0));
  EXPECT_DOUBLE_EQ(rows[1].mb_sent, 1);
  EXPECT_NEAR(rows[1].points->mean, 0, 1e-9);  // -1 and +1
  EXPECT_NEAR(rows[1].points->confidence(), 12.706, 1e-3);
  EXPECT_NEAR(rows[1].speed, 1.0, 1e-9);
  EXPECT_NEAR(rows[0].speed, 0.1, 1e-9);
  EXPECT_FALSE(rows[2].seconds_to_target || rows[2].times_sooner);
}

TEST(AccuracyRows, AreATableForPeople) {
  auto ways = made_up();
  ways[0].computed = true;
  const auto rows = accuracy_rows(kScene, ways);
  EXPECT_THAT(accuracy_cells(rows[0]), ElementsAre("allreduce *", "25.0 ± 7.07", "", "85.50 ± 0.71",
                                                   "", "100.0", "", "0.50", "0.10", "sgd 0.05"));
  EXPECT_THAT(accuracy_cells(rows[1]),
              ElementsAre("diloco", "5.0 ± 1.41", "5.0 ×", "85.50 ± 2.12", "+0.00 ± 12.71", "1.0",
                          "100 ×", "0.50", "1.00", "adamw 0.001"));
  EXPECT_EQ(accuracy_cells(rows[2])[1], "not reached");
  EXPECT_THAT(accuracy_table(kScene, rows, 1000),
              AllOf(HasSubstr("s to 80 %"), HasSubstr("*: computed")));
}

TEST(AccuracyRows, OfOneSeedPromiseNoSpread) {
  auto ways = made_up();
  for (WayRuns& way : ways) way.runs.resize(1);
  ways[2].runs[0] = Figures{};
  ways[2].runs[0].diverged = true;
  const auto rows = accuracy_rows(kScene, ways);
  EXPECT_THAT(accuracy_cells(rows[1]), ElementsAre("diloco", "4.0", "5.0 ×", "84.00", "-1.00",
                                                   "1.0", "100 ×", "0.50", "1.00", "adamw 0.001"));
  EXPECT_EQ(accuracy_cells(rows[2])[1], "1 diverged");
  EXPECT_THAT(accuracy_table(kScene, rows, 1000), Not(HasSubstr("computed")));
}

// The last columns are left out, and notes are broken between words.
TEST(AccuracyRows, FitANarrowTerminal) {
  const auto rows = accuracy_rows(kScene, made_up());
  const std::string wide = accuracy_table(kScene, rows, 1000);
  for (const int room : {39, 59, 79}) {
    const std::string text = accuracy_table(kScene, rows, room);
    std::istringstream lines(text);
    std::string head;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(report::visible_width(line), room) << line;
      if (head.empty()) head = line;
    }
    EXPECT_EQ(wide.find(head), 0u) << head;
    EXPECT_THAT(head, HasSubstr("s to 80 %"));
  }
}

TEST(AccuracyRows, KnowWhatDivergedRunsDoNotTell) {
  auto ways = made_up();
  ways[1].runs.push_back({});
  ways[1].runs.back().seconds_to_target = 3;
  ways[1].runs.back().diverged = true;
  const auto rows = accuracy_rows(kScene, ways);
  EXPECT_EQ(accuracy_cells(rows[1])[1], "1 diverged");
  EXPECT_FALSE(rows[1].times_sooner);
  EXPECT_DOUBLE_EQ(rows[1].mb_sent, 1);
  EXPECT_NEAR(rows[1].speed, 1.0, 1e-9);
}

TEST(AccuracyRows, AreFlatJson) {
  const auto rows = accuracy_rows(kScene, made_up());
  const auto json = accuracy_json(kScene, rows[1]);
  EXPECT_EQ(json.at("way"), "diloco");
  EXPECT_EQ(json.at("optimizer"), "adamw");
  EXPECT_DOUBLE_EQ(json.at("lr"), 0.001);
  EXPECT_DOUBLE_EQ(json.at("seconds_to_target"), 5);
  EXPECT_DOUBLE_EQ(json.at("bytes_sent_by_a_worker"), 1e6);
  EXPECT_DOUBLE_EQ(json.at("accuracy"), 0.855);
  EXPECT_TRUE(accuracy_json(kScene, rows[0]).at("times_sooner_than_allreduce").is_null());
  for (const auto& [key, value] : json.items()) EXPECT_FALSE(value.is_structured()) << key;
}

TEST(AccuracyPage, DrawsWhatTheTableSays) {
  auto ways = made_up();
  ways[0].computed = true;
  const std::string page = accuracy_page("a <b> & c", kScene, ways);
  EXPECT_THAT(page, AllOf(HasSubstr("a &lt;b&gt; &amp; c"), HasSubstr("<td>5.0 ± 1.41</td>"),
                          HasSubstr("seconds of training"), HasSubstr("MB that a worker has sent"),
                          HasSubstr("allreduce (computed)"), HasSubstr("stroke-dasharray"),
                          HasSubstr("&lt;late&gt;"), Not(HasSubstr("<late>"))));
  std::size_t curves = 0;
  for (std::size_t at = 0; (at = page.find("<polyline", at)) != std::string::npos; ++at) ++curves;
  EXPECT_EQ(curves, 12u);  // three ways, two seeds, two drawings
}

TEST(AccuracyPage, CanBeOfRunsWithoutATest) {
  EXPECT_THAT(accuracy_page("", kScene, {{{"asp", "--sync server"}, {Figures{}}}}),
              AllOf(HasSubstr("</html>"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(LineChart, MarksRoundNumbers) {
  EXPECT_THAT(marks_to(83), ElementsAre(0, 20, 40, 60, 80));
  EXPECT_THAT(marks_to(5), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(marks_to(240), ElementsAre(0, 50, 100, 150, 200));
}

TEST(LineChart, PutsDecadesAtEqualDistances) {
  const std::string chart =
      line_chart({"MB", true}, {{"red", false, {{{3, 0.7}, {30, 0.8}, {300, 0.9}}}}}, 0.8, 0.6);
  // From 1 to 1000, between 52 and 704 of the drawing: a decade is 217.3.
  EXPECT_THAT(chart, HasSubstr("points=\"154.4,"));
  EXPECT_THAT(chart, HasSubstr(" 369.1,"));
  EXPECT_THAT(chart, HasSubstr(" 583.8,"));
  EXPECT_THAT(chart, AllOf(HasSubstr(">1000</text>"), HasSubstr(">70 %</text>"),
                           Not(HasSubstr(">65 %</text>")), HasSubstr(">90 %</text>"),
                           Not(HasSubstr(">95 %</text>"))));
}

TEST(LineChart, HasMarksWhereItIsTold) {
  const Series series{"red", false, {{{128, 0.93}, {8192, 0.92}}}, true, {{8192, 0.91, 0.93}}};
  const std::string chart = line_chart({"batch", true, {128, 8192}}, {series}, std::nullopt, 0.7);
  EXPECT_THAT(chart, AllOf(HasSubstr(">128</text>"), HasSubstr(">8192</text>"),
                           HasSubstr(">91 %</text>"), HasSubstr("<circle"),
                           Not(HasSubstr(">100</text>")), Not(HasSubstr("class=\"target\""))));
}

}  // namespace
}  // namespace asup::bench
