#include "asup/parallel/cut/stage_cut.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "asup/base/error.h"
#include "tests/parallel/schedule/cases.h"

namespace asup::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::spec_of;
using ::testing::ThrowsMessage;

LayerCost layer_of(double seconds, double parameters = 0, double activations = 0,
                   double output = 0) {
  return {.name = "",
          .times = {.forward = seconds / 3,
                    .backward = seconds * 2 / 3,
                    .backward_input = seconds / 3,
                    .backward_weight = seconds / 3},
          .parameters = parameters,
          .activations = activations,
          .output = output};
}

CutProblem problem_of(const std::vector<double>& seconds, std::vector<RankCapacity> ranks = {{}}) {
  CutProblem problem{.layers = {}, .ranks = std::move(ranks), .links = {}};
  for (const double time : seconds) problem.layers.push_back(layer_of(time));
  return problem;
}

struct Setting {
  explicit Setting(const char* name, int ranks, int micro_batches = 8, int chunks = 0)
      : row(find_schedule(name)), spec(spec_of(row, ranks, micro_batches, chunks)) {}
  StageCut cut(const CutProblem& problem) const { return parallel::cut_stages(problem, row, spec); }

  const PipelineSchedule& row;
  PipelineSpec spec;
};

TEST(Cut, BalancesTimes) {
  const StageCut cut = Setting("1f1b", 3).cut(problem_of({3, 1, 1, 1, 2, 1}));
  EXPECT_THAT(cut.first, ElementsAre(0, 1, 4, 6));
  EXPECT_NEAR(cut.slowest, 3, 1e-9);
}

TEST(Cut, GivesASlowRankLess) {
  const Setting setting("1f1b", 2, 16);
  const StageCut cut =
      setting.cut(problem_of(std::vector<double>(16, 1), {{.speed = 1}, {.speed = 1. / 3}}));
  EXPECT_THAT(cut.first, ElementsAre(0, 12, 16));
  EXPECT_NEAR(cut.slowest, 12, 1e-9);
}

// What enters a stage is kept for each of its micro-batches, and what is in it for one.
TEST(Cut, WithRecomputationKeepsLess) {
  CutProblem problem = problem_of({1, 1, 1, 1}, {{.speed = 1, .memory = 100}});
  for (LayerCost& layer : problem.layers) layer.activations = 20, layer.output = 5;
  const Setting gpipe("gpipe", 2, 5);
  EXPECT_THAT([&] { gpipe.cut(problem); }, ThrowsMessage<BadInput>(HasSubstr("layer 2 fits")));
  problem.recompute = true;
  EXPECT_THAT(gpipe.cut(problem).first, ElementsAre(0, 2, 4));
  problem.layers[1].output = 13;  // 5 × 13 + 2 × 20 are too many behind it
  EXPECT_THAT(gpipe.cut(problem).first, ElementsAre(0, 1, 4));
}

TEST(Cut, KeepsToMemoryUnderTheActivationsThatTheScheduleHolds) {
  CutProblem problem = problem_of({1, 1, 1, 1}, {{.speed = 1, .memory = 100}});
  for (LayerCost& layer : problem.layers) {
    layer.parameters = 10;
    layer.activations = 20;
  }
  // 1f1b: rank 0 of 2 holds two micro-batches, so that a layer takes 50 there and 30 on rank 1.
  EXPECT_THAT(Setting("1f1b", 2).cut(problem).first, ElementsAre(0, 2, 4));
  // gpipe with three: 70 on both.
  EXPECT_THAT(
      [&] { Setting("gpipe", 2, 3).cut(problem); },
      ThrowsMessage<BadInput>(HasSubstr("layer 2 fits nowhere with all that is before it")));
  EXPECT_THAT([&] { Setting("gpipe", 2, 3).cut(problem); },
              ThrowsMessage<BadInput>(
                  HasSubstr("All layers take 40 bytes without activations, and 80 bytes of "
                            "one micro-batch; the 2 ranks have 200 bytes together")));
  problem.layers[1].parameters = 70;
  EXPECT_THAT([&] { Setting("1f1b", 2).cut(problem); },
              ThrowsMessage<BadInput>(HasSubstr("layer 2 fits nowhere")));
}

TEST(Cut, NamesTheLayerThatFitsOnNoRank) {
  CutProblem problem = problem_of({1, 1, 1}, {{.speed = 1, .memory = 8e6}});
  for (LayerCost& layer : problem.layers) layer.parameters = 5e6;
  problem.layers[1].name = "head";
  problem.layers[1].parameters = 9e6;
  EXPECT_THAT([&] { Setting("1f1b", 3).cut(problem); },
              ThrowsMessage<BadInput>(
                  "layer 1 (head) does not fit on rank 1: with the activations of 2 micro-batches "
                  "it takes 9.0 MB, and the rank has 8.0 MB; give the rank more memory, or smaller "
                  "micro-batches"));
}

TEST(Cut, CutsWhereMessagesAreSmallIfTheyAreWaitedFor) {
  CutProblem problem = problem_of({1, 1, 1, 1});
  problem.links = {{.latency = 0, .bandwidth = 1}};
  problem.layers[1].output = 1.5;
  problem.layers[0].output = problem.layers[2].output = 0.1;
  problem.messages_beside = false;
  const StageCut waits = Setting("1f1b", 2).cut(problem);
  EXPECT_THAT(waits.first, ::testing::Not(ElementsAre(0, 2, 4)));
  EXPECT_NEAR(waits.slowest, 3.2, 1e-9);
  problem.messages_beside = true;  // the link keeps up
  EXPECT_THAT(Setting("1f1b", 2).cut(problem).first, ElementsAre(0, 2, 4));
  problem.links[0].bandwidth = 0.4;  // and here it does not
  EXPECT_NEAR(Setting("1f1b", 2).cut(problem).slowest, 3, 1e-9);
}

TEST(Cut, OfAVKnowsWhichRankHasAStage) {
  const Setting setting("zbv", 2);
  // Stages 0 and 3 are on rank 0, which is twice as fast.
  const StageCut cut = setting.cut(problem_of({1, 1, 1, 1, 1, 1}, {{.speed = 2}, {.speed = 1}}));
  EXPECT_THAT(cut.first, ElementsAre(0, 2, 3, 4, 6));
  EXPECT_NEAR(cut.slowest, 1, 1e-9);
}

TEST(Cut, GivesTimesToPrice) {
  CutProblem problem = problem_of({3, 3, 6}, {{.speed = 1}, {.speed = 2}});
  problem.layers[1].output = 10;
  problem.links = {{.latency = 0.25, .bandwidth = 20}};
  const Setting setting("1f1b", 2);
  const StageCut cut = setting.cut(problem);
  EXPECT_THAT(cut.first, ElementsAre(0, 1, 3));
  const PipelineTimes times = times_of(cut, problem, setting.spec);
  EXPECT_NEAR(times.stages[1].forward, 3, 1e-9);
  EXPECT_NEAR(times.stages[1].backward, 6, 1e-9);
  EXPECT_THAT(times.speeds, ElementsAre(1, 2));
  EXPECT_THAT(times.transfer, ElementsAre(0));
  EXPECT_EQ(times.latency, 0.25);
}

TEST(Cut, InAnyOrderFindsThePlaceOfTheLargeMemory) {
  // Both ranks fit only one way: the first stage holds more activations.
  CutProblem problem =
      problem_of({1, 1}, {{.speed = 1, .memory = 50}, {.speed = 1, .memory = 100}});
  for (LayerCost& layer : problem.layers) layer.activations = 40;
  const Setting setting("1f1b", 2);
  EXPECT_THAT([&] { setting.cut(problem); },
              ThrowsMessage<BadInput>(HasSubstr("layer 0 does not fit on rank 0")));
  const StageCut cut = cut_stages_in_any_order(problem, setting.row, setting.spec);
  EXPECT_EQ(cut.ranks[0].memory, 100);
  EXPECT_EQ(cut.ranks[1].memory, 50);
}

TEST(Cut, InAnyOrderKeepsTheGivenOneWhereItIsAsGood) {
  const CutProblem problem = problem_of({1, 1, 1, 1}, {{.speed = 1}, {.speed = 3}});
  const Setting setting("1f1b", 2);
  EXPECT_EQ(cut_stages_in_any_order(problem, setting.row, setting.spec).ranks[0].speed, 1);
}

TEST(Cut, RefusesBadInput) {
  const auto refused = [](const CutProblem& problem, const char* message, int ranks = 2) {
    EXPECT_THAT([&] { Setting("1f1b", ranks).cut(problem); },
                ThrowsMessage<BadInput>(HasSubstr(message)));
  };
  refused(problem_of({1}), "2 stages need a layer each, and the model has 1; give fewer ranks");
  refused(problem_of({1, -1}), "layer  has a time or size of -");
  refused(problem_of({1, 1, 1}, {{}, {}}), "2 ranks are described, the pipeline has 3", 3);
  refused(problem_of({1, 1}, {{.speed = 0}}), "a rank of speed 0");
  CutProblem links = problem_of({1, 1, 1, 1});
  links.links.resize(2);
  refused(links, "2 links are described, 4 ranks have 3", 4);
  links.links.resize(3);
  EXPECT_THAT([&] { Setting("1f1b", 4).cut(links); },
              ::testing::Not(::testing::Throws<BadInput>()));
  const Setting four("1f1b", 4);
  EXPECT_THAT([&] { cut_stages_in_any_order(links, four.row, four.spec); },
              ThrowsMessage<BadInput>(HasSubstr("where all links are alike")));
  const Setting many("1f1b", 10);
  std::vector<RankCapacity> unlike(10);
  for (int i = 0; i < 10; ++i) unlike[i].speed = 1 + i;
  EXPECT_THAT(
      [&] {
        cut_stages_in_any_order(problem_of(std::vector<double>(10, 1), unlike), many.row,
                                many.spec);
      },
      ThrowsMessage<BadInput>("10 unlike ranks have too many orders to try them all; give them in "
                              "one"));
}

// All cuts, one by one.
class BruteForce {
 public:
  BruteForce(const CutProblem& problem, const Setting& setting)
      : problem_(problem), setting_(setting) {}

  // Infinite where none fits.
  double best() {
    first_ = {0};
    best_ = std::numeric_limits<double>::infinity();
    extend();
    return best_;
  }

  double slowest(const std::vector<int>& first) const {
    double most = 0;
    for (int s = 0; s + 1 < static_cast<int>(first.size()); ++s) {
      const RankCapacity& rank = problem_.ranks[setting_.spec.rank_of(s)];
      double computes = 0, bytes = 0;
      for (int l = first[s]; l < first[s + 1]; ++l) {
        const LayerCost& layer = problem_.layers[l];
        computes += (layer.times.forward + layer.times.backward) / rank.speed;
        bytes +=
            layer.parameters +
            layer.activations * setting_.row.activations(setting_.spec.rank_of(s), setting_.spec);
      }
      if (bytes > rank.memory) return std::numeric_limits<double>::infinity();
      double waits = 0, longest = 0;
      for (const int border : {s - 1, s}) {
        if (border < 0 || border + 1 >= setting_.spec.stages()) continue;
        const LinkRate& link = problem_.links[border];
        const double transfer = problem_.layers[first[border + 1] - 1].output / link.bandwidth;
        waits += 2 * (link.latency + transfer);
        longest = std::max(longest, transfer);
      }
      most =
          std::max(most, problem_.messages_beside ? std::max(computes, longest) : computes + waits);
    }
    return most;
  }

 private:
  void extend() {
    const int layers = static_cast<int>(problem_.layers.size());
    if (static_cast<int>(first_.size()) == setting_.spec.stages()) {
      first_.push_back(layers);
      best_ = std::min(best_, slowest(first_));
      first_.pop_back();
      return;
    }
    for (int next = first_.back() + 1; next < layers; ++next) {
      first_.push_back(next);
      extend();
      first_.pop_back();
    }
  }

  const CutProblem& problem_;
  const Setting& setting_;
  std::vector<int> first_;
  double best_ = 0;
};

CutProblem random_problem(std::mt19937& random, int ranks) {
  const auto number = [&](int most) { return static_cast<double>(random() % most); };
  CutProblem problem;
  const int layers = ranks + static_cast<int>(random() % 7);
  for (int i = 0; i < layers; ++i)
    problem.layers.push_back(layer_of(3 * (1 + number(9)), number(20), number(8), number(12)));
  problem.ranks.clear();
  for (int i = 0; i < ranks; ++i) {
    problem.ranks.push_back({.speed = 1 + number(3), .memory = 30 + number(150)});
    problem.links.push_back({.latency = number(3), .bandwidth = 1 + number(3)});
  }
  problem.messages_beside = random() % 2 == 0;
  return problem;
}

TEST(Cut, IsTheBestOfAll) {
  std::mt19937 random(1);
  int fitting = 0, refused = 0;
  for (int trial = 0; trial < 1500; ++trial) {
    const Setting setting(random() % 2 == 0 ? "1f1b" : "gpipe", 2 + random() % 4, 1 + random() % 6);
    const CutProblem problem = random_problem(random, setting.spec.ranks);
    BruteForce brute(problem, setting);
    const double best = brute.best();
    if (best == std::numeric_limits<double>::infinity()) {
      ++refused;
      EXPECT_THAT([&] { setting.cut(problem); }, ThrowsMessage<BadInput>(HasSubstr("fit")));
      continue;
    }
    ++fitting;
    const StageCut found = setting.cut(problem);
    ASSERT_NEAR(found.slowest, best, 1e-9);
    ASSERT_NEAR(brute.slowest(found.first), best, 1e-9);  // and it is what it says
  }
  EXPECT_GT(fitting, 200);
  EXPECT_GT(refused, 50);
}

TEST(Cut, InAnyOrderIsTheBestOfAll) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial) {
    const Setting setting("1f1b", 2 + random() % 3, 4);
    CutProblem problem = random_problem(random, setting.spec.ranks);
    for (RankCapacity& rank : problem.ranks) rank.memory += 1000;
    problem.links.clear();
    double best = std::numeric_limits<double>::infinity();
    CutProblem ordered = problem;
    std::vector<int> order(problem.ranks.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      for (std::size_t i = 0; i < order.size(); ++i) ordered.ranks[i] = problem.ranks[order[i]];
      best = std::min(best, setting.cut(ordered).slowest);
    } while (std::next_permutation(order.begin(), order.end()));
    ASSERT_NEAR(cut_stages_in_any_order(problem, setting.row, setting.spec).slowest, best, 1e-9);
  }
}

}  // namespace
}  // namespace asup::parallel
