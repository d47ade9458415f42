// asup plan pipeline, from the outside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "asup/base/files.h"
#include "tests/cli/program.h"
#include "tests/support/temporary_folder.h"

namespace asup::cli {
namespace {

using asup::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST(AsupPlanPipeline, ListsTheSchedules) {
  const Ended ended = run({"plan", "pipeline"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, AllOf(StartsWith("1f1b "), HasSubstr("\ngpipe "), HasSubstr("\nzbv "),
                                HasSubstr("asup plan pipeline SCHEDULE --stages P")));
}

TEST(AsupPlanPipeline, PrintsTheBubbleAndWhoDoesWhatWhen) {
  const Ended ended = run({"plan", "pipeline", "1f1b", "--stages", "2", "--microbatches", "3"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, StartsWith("1f1b on 2 ranks, 3 micro-batches: one forward and one "
                                     "backward in turn; "));
  EXPECT_THAT(ended.text,
              HasSubstr("\na step takes 12, 1.50 times as fast as one rank alone; the bubble is "
                        "25.0 %\n"
                        "a rank holds activations of 2 micro-batches at most\n"
                        "rank 0  F0 F1       B0--- F2 B1---    B2---\n"
                        "rank 1     F0 B0--- F1 B1--- F2 B2---\n"));
}

TEST(AsupPlanPipeline, Proves) {
  const Ended ended = run({"plan", "pipeline", "interleaved", "-n", "16", "--microbatches", "64",
                           "--chunks", "4", "--verify"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.text, MatchesRegex("interleaved on 16 ranks of 4 chunks, 64 micro-batches: "
                                       "(.|\n)*\nproven in [0-9.]+ ms, [0-9]+ actions: (.|\n)*"));
}

TEST(AsupPlanPipeline, DrawsAndWritesRows) {
  const TemporaryFolder folder;
  const std::string svg = folder.file("plan.svg"), json = folder.file("plan.json");
  const Ended ended = run({"plan", "pipeline", "zb1p", "-n", "2", "--microbatches", "2", "--svg",
                           svg, "--json", json, "--link-time", "0.5"});
  EXPECT_EQ(ended.status, 0) << ended.last_error;
  EXPECT_THAT(ended.text, HasSubstr("drawn to " + svg));
  EXPECT_THAT(read_file(svg), AllOf(StartsWith("<svg xmlns="), HasSubstr("zb1p on 2 ranks")));
  const auto rows = nlohmann::json::parse(read_file(json));
  ASSERT_EQ(rows.size(), 2u * (6 + 4));
  EXPECT_EQ(rows[1], (nlohmann::json{{"rank", 0},
                                     {"op", "send_activation"},
                                     {"stage", 0},
                                     {"micro_batch", 0},
                                     {"begin", 1.0},
                                     {"end", 1.5}}));
}

TEST(AsupPlanPipeline, TakesTimesOfEachStageAndSpeeds) {
  const Ended slow =
      run({"plan", "pipeline", "1f1b", "-n", "2", "--microbatches", "8", "--times", "1,1,1/2,2,2"});
  EXPECT_THAT(slow.text, AllOf(HasSubstr("a step takes 51, "), HasSubstr("of the ranks: 53, 6 %")));
  const Ended speeds =
      run({"plan", "pipeline", "1f1b", "-n", "2", "--microbatches", "8", "--speeds", "1,0.5"});
  EXPECT_THAT(speeds.text, HasSubstr("a step takes 51, "));
  // Chunks share a rank's time.
  const Ended chunks = run({"plan", "pipeline", "zbv", "-n", "1", "--microbatches", "2"});
  EXPECT_THAT(chunks.text, AllOf(HasSubstr("a step takes 6, 1.00 times"),
                                 HasSubstr("micro-batches, each in 1/2 of its layers at most"),
                                 Not(HasSubstr("of the ranks"))));
}

TEST(AsupPlanPipeline, CutsMeasuredLayers) {
  const TemporaryFolder folder;
  std::string layers;
  for (int i = 0; i < 8; ++i)
    layers += R"({"forward": 1, "backward_input": 1, "backward_weight": 1},)";
  const std::string path =
      folder.write("cut.json", R"({"layers": [)" + layers + R"({"name": "head", "forward": 1}],
                     "ranks": [{"speed": 1}, {"speed": 3}]})");
  const std::vector<std::string> words = {"plan",           "pipeline", "1f1b",  "-n", "2",
                                          "--microbatches", "16",       "--cut", path};
  const Ended ended = run(words);
  EXPECT_EQ(ended.status, 0) << ended.last_error;
  EXPECT_THAT(ended.text,
              HasSubstr("\nstage 0 on rank 0, of speed 1: 2 layers, layer 0 to layer 1\n"
                        "stage 1 on rank 1, of speed 3: 7 layers, layer 2 to head\n"
                        "the slowest stage takes 6.333 s a micro-batch\n"
                        "a step takes "));
  const Ended both = run({"plan", "pipeline", "1f1b", "-n", "2", "--microbatches", "16", "--cut",
                          path, "--times", "1,1,1"});
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.last_error, AllOf(HasSubstr("--cut"), HasSubstr("--times")));
  const Ended many =
      run({"plan", "pipeline", "1f1b", "-n", "10", "--microbatches", "16", "--cut", path});
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.last_error, HasSubstr("2 ranks are described, the pipeline has 10"));
}

TEST(AsupPlanPipeline, RefusesBadInput) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"1f1c", "-n", "2", "--microbatches", "2"},
       "no pipeline schedule '1f1c'; did you mean '1f1b'?; there are: 1f1b, gpipe, interleaved, "
       "zb1p, zbv"},
      {{"1f1b"}, "--stages says of how many ranks the pipeline is, at least 1"},
      {{"1f1b", "--stages", "2"},
       "--microbatches says into how many a step's batch is cut, at least 1"},
      {{"1f1b", "-n", "2", "--microbatches", "2", "--chunks", "2"},
       "1f1b gives each rank one stage of the model, not 2; for more, choose interleaved"},
      {{"1f1b", "-n", "2", "--microbatches", "2", "--times", "1,2"},
       "--times 1,2: '1,2' should be three times: of forward, of the input's gradient and of the "
       "weights'"},
      {{"1f1b", "-n", "2", "--microbatches", "2", "--times", "1,2,x"},
       "--times 1,2,x: 'x' is no number"},
      {{"1f1b", "-n", "2", "--microbatches", "2", "--times", "1,1,-1"},
       "backward_weight -1: a time is a number from 0 on"},
      {{"1f1b", "-n", "3", "--microbatches", "2", "--times", "1,1,1/2,2,2"},
       "--times has 2 stages, the pipeline 3: give one triple for all ranks, or one for each "
       "stage"},
      {{"1f1b", "-n", "2", "--microbatches", "2", "--speeds", "1,2,3"},
       "speeds of 3 ranks for a pipeline of 2"},
      {{"1f1b", "-n", "2", "--microbatches", "2", "--link-time", "-1"},
       "link latency -1: a time is a number from 0 on"},
      {{"gpipe", "-n", "1000", "--microbatches", "100000"},
       "1000 stages and 100000 micro-batches are some 700 million actions, more than can be shown; "
       "give fewer"},
  };
  for (auto [words, message] : cases) {
    words.insert(words.begin(), {"plan", "pipeline"});
    const Ended ended = run(words);
    EXPECT_EQ(ended.status, 2) << message;
    EXPECT_EQ(ended.last_error, "asup plan pipeline: " + message);
  }
  const Ended before = run({"plan", "--ranks", "2", "pipeline", "1f1b", "--microbatches", "2"});
  EXPECT_EQ(before.status, 2);
  EXPECT_EQ(before.last_error,
            "asup plan pipeline: --ranks stands before pipeline; give it behind its schedule");
}

}  // namespace
}  // namespace asup::cli
