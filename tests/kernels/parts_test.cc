// Steps that come in parts: each update has a share of the step's samples.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "asup/kernels/isa/table.h"
#include "asup/kernels/update.h"

namespace asup::kernels {
namespace {

using Kind = Rule::Kind;
using Floats = std::vector<float>;

constexpr std::size_t kCount = 101;

Floats random_floats(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Floats floats(kCount);
  for (float& x : floats) x = normal(random);
  return floats;
}

// Parameters with state, and steps done.
class Model {
 public:
  explicit Model(const Rule& rule)
      : rule_(rule), parameters_(random_floats(1)), state_(state_slots(rule) + 1, Floats(kCount)) {}

  void step(double lr, const Floats& g) { part(lr, g, 1); }
  // The same gradient, n times.
  void step_in_parts(double lr, const Floats& g, int n) {
    for (int i = 0; i < n; ++i) part(lr, g, 1.0 / n);
  }
  void part(double lr, const Floats& g, double share, const Table& table = best_table()) {
    const UpdateStep step{.lr = lr, .updates = steps_ + 1, .share = share, .gathered = gathered_};
    const GradientSource source{g.data()};
    std::vector<float*> rows;
    for (Floats& row : state_) rows.push_back(row.data());
    table.update(rule_, step, parameters_.data(), rows.data(), &source, 1, nullptr, 0, kCount);
    gathered_ += share;
    if (!step.ends_step()) return;
    ++steps_;
    gathered_ = gathered_ - 1 > 1e-9 ? gathered_ - 1 : 0;
  }

  const Floats& parameters() const { return parameters_; }
  const Floats& slot(std::size_t i) const { return state_[i]; }
  // Parameters and the rule's own state.
  Floats all() const {
    Floats all = parameters_;
    for (std::size_t i = 0; i < state_slots(rule_); ++i)
      all.insert(all.end(), state_[i].begin(), state_[i].end());
    return all;
  }

 private:
  Rule rule_;
  Floats parameters_;
  std::vector<Floats> state_;
  std::uint64_t steps_ = 0;
  double gathered_ = 0;
};

void expect_near(const Floats& got, const Floats& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  double most = 1;
  for (const float x : wanted) most = std::max(most, std::fabs(double{x}));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], tolerance * most) << "element " << i;
}

// Some steps with several gradients, whole and in parts.
void expect_parts_to_be_steps(const Rule& rule, double lr, double tolerance) {
  for (const int parts : {1, 4, 16, 3}) {
    SCOPED_TRACE(::testing::Message() << parts << " parts of " << describe(rule) << ", lr " << lr);
    Model whole(rule), cut(rule);
    for (std::uint64_t step = 0; step < 10; ++step) {
      const Floats g = random_floats(10 + step);
      whole.step(lr, g);
      cut.step_in_parts(lr, g, parts);
    }
    expect_near(cut.all(), whole.all(), tolerance);
  }
}

TEST(Parts, OfLinearRulesComeToTheirStep) {
  for (const Rule& rule : {
           Rule{.kind = Kind::sgd},
           Rule{.kind = Kind::sgd, .weight_decay = 0.01},
           Rule{.kind = Kind::momentum, .momentum = 0.9},
           Rule{.kind = Kind::momentum, .momentum = 0.9, .weight_decay = 1e-4},
           Rule{.kind = Kind::momentum, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.02},
           Rule{.kind = Kind::momentum, .momentum = 0, .weight_decay = 0.02},
           Rule{.kind = Kind::momentum, .momentum = 1},
           Rule{.kind = Kind::nesterov, .momentum = 0.9},
           Rule{.kind = Kind::nesterov, .momentum = 0.9, .weight_decay = 0.01},
           Rule{.kind = Kind::nesterov, .momentum = 0.9, .weight_decay = 1e-7},
       })
    expect_parts_to_be_steps(rule, 0.05, 3e-6);
}

// Eigenvalues of the step that are complex, equal, nearly equal, and nearly 1.
TEST(Parts, OfStepsThatTurnComeToTheirStep) {
  const double equal = (1 - std::sqrt(0.81)) * (1 - std::sqrt(0.81));
  for (const double decay : {0.5, 1.5, equal, equal * (1 + 1e-9), equal * (1 - 1e-9), 2e-7, 1e-9})
    expect_parts_to_be_steps({.kind = Kind::momentum, .momentum = 0.81, .weight_decay = decay}, 1,
                             3e-5);
}

// A step that turns the sign of w has no power: parts go the same way, and stay finite.
TEST(Parts, OfStepsWithoutAPowerGoTheSameWay) {
  for (const Rule& rule : {Rule{.kind = Kind::sgd, .weight_decay = 1.5},
                           Rule{.kind = Kind::nesterov, .momentum = 0.5, .weight_decay = 1.5},
                           Rule{.kind = Kind::momentum, .momentum = 0.01, .weight_decay = 1.5}}) {
    Model cut(rule);
    const Floats g(kCount, 0.0f), first = cut.parameters();
    cut.step_in_parts(1, g, 4);
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_LT(std::fabs(cut.parameters()[i]), std::fabs(first[i])) << describe(rule);
  }
}

// Second moments too, but for decay that is taken at the parameters of each part.
TEST(Parts, OfTheSameGradientComeToAStepOfEveryRule) {
  for (const Rule& rule : {
           Rule{.kind = Kind::rmsprop},
           Rule{.kind = Kind::rmsprop, .momentum = 0.9},
           Rule{.kind = Kind::rmsprop, .momentum = 0.5, .eps = 1e-3, .centered = true},
           Rule{.kind = Kind::rmsprop, .eps = 1e-3, .centered = true},
           Rule{.kind = Kind::adagrad},
           Rule{.kind = Kind::adam},
           Rule{.kind = Kind::adam, .beta2 = 0.9, .amsgrad = true},
           Rule{.kind = Kind::adamw},
           Rule{.kind = Kind::adamw, .beta2 = 0.9, .amsgrad = true},
           Rule{.kind = Kind::lars, .momentum = 0.9},
           Rule{.kind = Kind::lamb, .eps = 1e-6},
           Rule{.kind = Kind::lamb, .weight_decay = 0.001, .eps = 1e-6},
           Rule{.kind = Kind::asup, .momentum = 0.9},
       })
    expect_parts_to_be_steps(rule, 0.05, 1e-5);
  expect_parts_to_be_steps({.kind = Kind::adamw, .weight_decay = 0.05}, 1e-3, 1e-5);
}

// Noisy parts: what they do to second moments is what their mean does.
TEST(Parts, LeaveSecondMomentsAsTheirMeanDoes) {
  struct Case {
    Rule rule;
    std::vector<std::size_t> moments;  // slots
  };
  for (const auto& [rule, moments] : {
           Case{{.kind = Kind::rmsprop, .momentum = 0.9, .centered = true}, {0, 1}},
           Case{{.kind = Kind::adagrad}, {0}},
           Case{{.kind = Kind::adam}, {1}},
           Case{{.kind = Kind::adamw, .beta2 = 0.9, .amsgrad = true}, {1, 2}},
           Case{{.kind = Kind::lamb}, {1}},
           Case{{.kind = Kind::asup, .momentum = 0.9}, {1}},
       })
    for (const int parts : {4, 16}) {
      SCOPED_TRACE(::testing::Message() << parts << " parts of " << describe(rule));
      Model whole(rule), cut(rule);
      for (int step = 0; step < 5; ++step) {
        Floats mean(kCount);
        for (int part = 0; part < parts; ++part) {
          const Floats g = random_floats(static_cast<std::uint64_t>(100 * step + part));
          const std::vector<Floats> held{cut.slot(moments[0])};
          cut.part(0.01, g, 1.0 / parts);
          if (part + 1 < parts) {
            EXPECT_EQ(cut.slot(moments[0]), held[0]) << "held within a step";
          }
          for (std::size_t i = 0; i < kCount; ++i) mean[i] += g[i] / static_cast<float>(parts);
        }
        whole.step(0.01, mean);
        for (const std::size_t slot : moments) expect_near(cut.slot(slot), whole.slot(slot), 1e-6);
      }
    }
}

// Where there is no history, their mean alone is no measure of what they are.
TEST(Parts, ThatCancelOutGoNoFurtherThanAStep) {
  for (const Rule& rule : {
           Rule{.kind = Kind::rmsprop},
           Rule{.kind = Kind::rmsprop, .momentum = 0.9},
           Rule{.kind = Kind::adagrad},
           Rule{.kind = Kind::adam},
           Rule{.kind = Kind::adamw, .amsgrad = true},
           Rule{.kind = Kind::asup, .momentum = 0.9},
       }) {
    Model whole(rule), cut(rule);
    const Floats g = random_floats(3), first = cut.parameters();
    Floats opposite(kCount);
    for (std::size_t i = 0; i < kCount; ++i) opposite[i] = -1.001f * g[i];
    whole.step(0.01, g);
    cut.part(0.01, g, 0.5);
    cut.part(0.01, opposite, 0.5);
    for (std::size_t i = 0; i < kCount; ++i)
      EXPECT_LE(std::fabs(cut.parameters()[i] - first[i]),
                1.5f * std::fabs(whole.parameters()[i] - first[i]))
          << describe(rule);
  }
}

// A part that is of two steps counts in each by what it has of it.
TEST(Parts, MayGoBeyondTheStep) {
  const Rule rule{.kind = Kind::adam};
  const Floats a = random_floats(5), b = random_floats(6), c = random_floats(7);
  Model cut(rule), whole(rule);
  cut.part(0.01, a, 0.75);
  cut.part(0.01, b, 0.5);
  cut.part(0.01, c, 0.75);
  Floats first(kCount), second(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    first[i] = 0.75f * a[i] + 0.25f * b[i];
    second[i] = 0.25f * b[i] + 0.75f * c[i];
  }
  whole.step(0.01, first);
  whole.step(0.01, second);
  expect_near(cut.slot(1), whole.slot(1), 1e-6);
  EXPECT_EQ(cut.slot(2), Floats(kCount)) << "nothing is left";
}

TEST(Parts, HaveTheSameBitsWithEveryInstructionSet) {
  for (const Kind kind : {Kind::sgd, Kind::momentum, Kind::rmsprop, Kind::adam, Kind::asup}) {
    Rule rule{.kind = kind};
    if (kind == Kind::momentum || kind == Kind::asup) rule.momentum = 0.9;
    std::vector<Floats> results;
    for (const Table* table : supported_tables()) {
      Model model(rule);
      for (std::uint64_t i = 0; i < 5; ++i) model.part(0.05, random_floats(i), 0.3, *table);
      results.push_back(model.all());
      const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
      EXPECT_TRUE(std::ranges::equal(results.back(), results.front(), {}, bits, bits))
          << table->name << ", " << describe(rule);
    }
  }
}

}  // namespace
}  // namespace asup::kernels
