#include "asup/parallel/cut/cut_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::parallel {
namespace {

using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CutFile, HoldsLayersRanksAndLinks) {
  const TemporaryFolder folder;
  const CutProblem problem = read_cut_problem(folder.write("cut.json", R"({
    "layers": [{"name": "a", "forward": 1, "backward_input": 2, "backward_weight": 3,
                "parameters": 4, "activations": 5, "output": 6},
               {"forward": 1, "backward": 2.5}],
    "ranks": [{"speed": 0.5, "memory": 1e9}, {}],
    "links": [{"latency": 0.1, "bandwidth": 1e6}],
    "messages_beside": false})"));
  ASSERT_EQ(problem.layers.size(), 2u);
  EXPECT_EQ(problem.layers[0].name, "a");
  EXPECT_EQ(problem.layers[0].times.backward_weight, 3);
  EXPECT_EQ(problem.layers[0].times.backward, 5);
  EXPECT_EQ(problem.layers[0].output, 6);
  EXPECT_EQ(problem.layers[1].times.backward, 2.5);
  EXPECT_EQ(problem.ranks.at(0).speed, 0.5);
  EXPECT_TRUE(std::isinf(problem.ranks.at(1).memory));
  EXPECT_EQ(problem.links.at(0).bandwidth, 1e6);
  EXPECT_FALSE(problem.messages_beside);
}

TEST(CutFile, IsReadAsItWasWritten) {
  const CutProblem problem{
      .layers = {{.name = "a", .times = {1, 5.5, 2, 3}, .parameters = 4, .activations = 5},
                 {.name = "b", .times = {0.1, 0.2, 0.1, 0.1}, .output = 6}},
      .ranks = {{.speed = 0.5, .memory = 7}, {}},
      .links = {{.latency = 0.1, .bandwidth = 1e6}, {}},
      .messages_beside = false,
      .recompute = true};
  const CutProblem read = cut_problem_from(nlohmann::json::parse(to_json(problem).dump()), "it");
  EXPECT_EQ(to_json(read), to_json(problem));
  EXPECT_EQ(read.layers[0].times.backward, 5.5);
  EXPECT_EQ(read.layers[1].output, 6);
  EXPECT_EQ(read.ranks[0].memory, 7);
  EXPECT_TRUE(std::isinf(read.ranks[1].memory));
  EXPECT_TRUE(std::isinf(read.links[1].bandwidth));
  EXPECT_FALSE(read.messages_beside);
  EXPECT_TRUE(read.recompute);
}

TEST(CutFile, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* text, const char* message) {
    const std::string path = folder.write("cut.json", text);
    EXPECT_THAT([&] { read_cut_problem(path); }, ThrowsMessage<BadInput>(HasSubstr(message)));
  };
  refused("{", "cut.json is no JSON");
  refused("{}", "cut.json has no layers");
  refused("[]", "cut.json should be an object");
  refused(R"({"layers": 3})", "cut.json: layers should be a list");
  refused(R"({"layers": [{"forwards": 1}]})",
          "cut.json: layers 0 has a key 'forwards'; did you mean 'forward'?; there are: name, ");
  refused(R"({"layers": [{"forward": "1"}]})", "cut.json: layers 0: forward should be a number");
  refused(R"({"layers": [{}], "messages_beside": 1})", "messages_beside should be true or false");
}

}  // namespace
}  // namespace asup::parallel
