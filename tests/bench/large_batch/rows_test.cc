#include "asup/bench/large_batch/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/bench/large_batch/page.h"
#include "asup/report/format.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BatchRow row(const std::string& way, int batch, std::map<int, std::optional<double>> by_seed) {
  return {.job = way + std::to_string(batch),
          .way = way,
          .batch = batch,
          .lr = 0.5,
          .tuned = way != "sgd",
          .updates = 60'000 / batch,
          .by_seed = std::move(by_seed)};
}

BatchTable made_up() {
  return {{row("sgd", 128, {{1, 0.90}, {2, 0.92}}), row("sgd", 8192, {{1, 0.4}, {2, std::nullopt}}),
           row("nesterov", 128, {{1, 0.91}, {2, 0.93}}),
           row("nesterov", 8192, {{1, 0.90}, {2, 0.91}}), row("growing", 8192, {{1, 0.92}})},
          128};
}

TEST(BatchTable, StandsBesideTheSmallestBatch) {
  const BatchTable table = made_up();
  EXPECT_THAT(table.heads(),
              ElementsAre("way", "batch", "accuracy %", "minus 128's", "updates", "lr"));
  EXPECT_THAT(table.cells(table.rows[2]),
              ElementsAre("nesterov", "128", "92.00 ± 1.41", "", "468", "0.5"));
  EXPECT_THAT(table.cells(table.rows[3]),
              ElementsAre("nesterov", "8192", "90.50 ± 0.71", "-1.50 ± 6.35", "7", "0.5"));
  // Beside nesterov, by the one seed that both have.
  EXPECT_THAT(table.cells(table.rows[4]),
              ElementsAre("growing", "8192", "92.00", "+1.00", "7", "0.5"));
}

TEST(BatchTable, SaysWhatDivergedAndWhatWasNotTuned) {
  const BatchTable table = made_up();
  EXPECT_THAT(table.cells(table.rows[1]),
              ElementsAre("sgd", "8192", "1 diverged", "", "7", "0.5 *"));
  EXPECT_FALSE(table.rows[1].accuracy());
}

TEST(BatchTable, FitsANarrowTerminal) {
  const BatchTable table = made_up();
  EXPECT_THAT(table.head(1000), HasSubstr("lr"));
  for (const int room : {39, 59}) {
    EXPECT_LE(report::visible_width(table.head(room)), room + 1) << room;
    EXPECT_THAT(table.line(table.rows[0], room), HasSubstr("91.00 ± 1.41"));
  }
}

TEST(BatchRowFile, GivesBackWhatItKeeps) {
  const TemporaryFolder folder;
  const std::string file = folder.file("rows.json");
  {
    BatchRowFile rows(file);
    for (const BatchRow& each : made_up().rows) rows.keep(each);
    BatchRow more = made_up().rows[4];
    more.by_seed[3] = std::nullopt;
    rows.keep(more);
  }
  const BatchRowFile again(file);
  EXPECT_EQ(again.find("lamb128"), nullptr);
  const BatchRow* growing = again.find("growing8192");
  ASSERT_NE(growing, nullptr);
  EXPECT_EQ(growing->by_seed, (std::map<int, std::optional<double>>{{1, 0.92}, {3, {}}}));
  EXPECT_EQ(growing->updates, 7);
  EXPECT_TRUE(growing->tuned);
  const auto json = nlohmann::json::parse(read_file(file));
  ASSERT_EQ(json.size(), 5u);
  EXPECT_NEAR(json[0].at("accuracy").get<double>(), 0.91, 1e-12);
  EXPECT_TRUE(json[1].at("accuracy").is_null());
  EXPECT_EQ(json[1].at("diverged"), 1);
}

TEST(BatchRowFile, LeavesOtherFilesAlone) {
  const TemporaryFolder folder;
  for (const char* text : {"{", "[1]", R"([{"way": "lars"}])"}) {
    folder.write("rows.json", text);
    EXPECT_THAT(
        message_of<BadInput>([&] { BatchRowFile(folder.file("rows.json")); }),
        AllOf(HasSubstr("--json " + folder.file("rows.json")), HasSubstr("name another file")));
  }
  EXPECT_NO_THROW(BatchRowFile(folder.file("not-yet.json")));
  EXPECT_NO_THROW(BatchRowFile("").keep(made_up().rows[0]));
}

TEST(LargeBatchPage, DrawsALineForEachWay) {
  const std::string page = large_batch_page("a <b>", made_up());
  EXPECT_THAT(page, AllOf(HasSubstr("a &lt;b&gt;"), HasSubstr(">128</text>"),
                          HasSubstr(">8192</text>"), HasSubstr("<td>90.50 ± 0.71</td>"),
                          HasSubstr("samples of a batch"), Not(HasSubstr("class=\"target\""))));
  const auto count = [&](const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = page.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<polyline"), 3u);
  EXPECT_EQ(count("<circle"), 4u);          // not where a run diverged
  EXPECT_EQ(count("opacity=\"0.5\""), 3u);  // not of one seed
}

TEST(LargeBatchPage, CanBeEmpty) {
  EXPECT_THAT(large_batch_page("", {{row("lars", 128, {{1, std::nullopt}})}, 128}),
              AllOf(HasSubstr("</html>"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

}  // namespace
}  // namespace asup::bench
