#include "asup/report/timeline/trace_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::report {
namespace {

using Json = nlohmann::ordered_json;

std::string unzipped(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text;
  std::array<char, 1 << 14> piece;
  for (int got; (got = gzread(file, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(got));
  gzclose(file);
  return text;
}

TimelinePart rank(int number, std::int64_t from) {
  TimelinePart part{.process = static_cast<std::uint64_t>(number + 1),
                    .name = "rank " + std::to_string(number),
                    .host = "a \"host\"",
                    .order = number};
  TimelinePart::Track track{.name = "training"};
  for (int step = 1; step <= 3; ++step) {
    TimelineEvent outer;
    outer.step = step;
    outer.begin = from + 1'000'000 * step;
    outer.end = outer.begin + 900'001;
    TimelineEvent inner = outer;
    inner.activity = Activity::forward;
    inner.begin += 1'000;
    inner.end -= 1'000;
    inner.detail = "some\\thing \"odd\"";
    track.events.push_back(inner);  // as they end
    track.events.push_back(outer);
  }
  TimelineEvent counter;
  counter.kind = TimelineEvent::Kind::counter;
  counter.name = "queue";
  counter.begin = from + 1'500'000;
  counter.end = 7;
  track.events.push_back(counter);
  part.tracks = {track, {.name = "empty"}};
  return part;
}

TEST(TraceFile, IsWhatTraceViewersRead) {
  const asup::testing::TemporaryFolder folder;
  JobTimeline timeline;
  timeline.add(pack(rank(1, 5'000'000'000'000'000)));
  timeline.add(pack(rank(0, 5'000'000'000'000'500)));
  const std::string path = folder.file("t.json.gz");
  write_timeline(path, timeline);
  const Json all = Json::parse(unzipped(path));
  EXPECT_EQ(all["displayTimeUnit"], "ms");
  std::map<int, std::string> names;
  std::map<std::pair<int, int>, double> last;
  int spans = 0, counters = 0;
  for (const Json& event : all["traceEvents"]) {
    const int pid = event["pid"], tid = event["tid"];
    if (event["ph"] == "M") {
      if (event["name"] == "process_name") names[pid] = event["args"]["name"];
      EXPECT_NE(event["args"].value("name", ""), "empty");
      continue;
    }
    const double at = event["ts"];
    EXPECT_GE(at, 0);
    EXPECT_GE(at, (last[{pid, tid}])) << "sorted";
    last[{pid, tid}] = at;
    if (event["ph"] == "C") {
      ++counters;
      EXPECT_EQ(event["args"]["value"], 7);
      continue;
    }
    ASSERT_EQ(event["ph"], "X");
    ++spans;
    EXPECT_GT(event["dur"], 0);
    EXPECT_GE(event["args"]["step"], 1);
  }
  EXPECT_EQ(spans, 12);
  EXPECT_EQ(counters, 2);
  EXPECT_EQ(names, (std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
}

TEST(TraceFile, ItsFirstLineIsForTheReport) {
  const asup::testing::TemporaryFolder folder;
  JobTimeline timeline;
  timeline.add(pack(rank(0, 0)));
  const std::string path = folder.file("t.json.gz");
  write_timeline(path, timeline);
  const auto view = read_timeline_view(path);
  ASSERT_TRUE(view);
  EXPECT_EQ((*view)["step"]["number"], 2);
  EXPECT_EQ((*view)["shares"][0]["steps"], 3);
  EXPECT_EQ((*view)["processes"][0]["events"], 7);
}

TEST(TraceFile, OtherFilesHaveNoView) {
  const asup::testing::TemporaryFolder folder;
  EXPECT_FALSE(read_timeline_view(folder.file("none")));
  EXPECT_FALSE(read_timeline_view(folder.write("text", "{\"otherData\":{}}")));
  EXPECT_FALSE(read_timeline_view(folder.write("cut", "{\"otherData\":{,\n")));
}

TEST(TraceFile, AnEmptyOneIsValidToo) {
  const asup::testing::TemporaryFolder folder;
  const std::string path = folder.file("t.json.gz");
  write_timeline(path, JobTimeline());
  EXPECT_TRUE(Json::parse(unzipped(path))["traceEvents"].empty());
  EXPECT_THROW(write_timeline(folder.file("no/such/folder"), JobTimeline()), Error);
}

}  // namespace
}  // namespace asup::report
