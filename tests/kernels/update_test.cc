#include "asup/kernels/update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"
#include "tests/kernels/reference_update.h"
#include "tests/support/thrown.h"

namespace asup::kernels {

void PrintTo(const Rule& rule, std::ostream* out) { *out << describe(rule); }

namespace {

using Kind = Rule::Kind;
using Floats = std::vector<float>;
using asup::testing::message_of;

// Every formula that there is, each option once at least.
const Rule kRules[] = {
    {.kind = Kind::sgd},
    {.kind = Kind::sgd, .weight_decay = 0.01},
    {.kind = Kind::momentum, .momentum = 0.9},
    {.kind = Kind::momentum, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.02},
    {.kind = Kind::nesterov, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = Kind::rmsprop},
    {.kind = Kind::rmsprop, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = Kind::rmsprop, .alpha = 0.9, .eps = 1e-3, .centered = true},
    {.kind = Kind::rmsprop, .momentum = 0.5, .weight_decay = 0.01, .centered = true},
    {.kind = Kind::adagrad},
    {.kind = Kind::adagrad, .weight_decay = 0.01, .eps = 1e-3},
    {.kind = Kind::adam},
    {.kind = Kind::adam, .weight_decay = 0.01, .eps = 1e-4, .beta1 = 0.8, .beta2 = 0.95},
    {.kind = Kind::adam, .beta2 = 0.9, .amsgrad = true},
    {.kind = Kind::adamw, .weight_decay = 0.05},
    {.kind = Kind::adamw, .weight_decay = 0.05, .beta2 = 0.9, .amsgrad = true},
    {.kind = Kind::lars, .momentum = 0.9, .weight_decay = 0.01},
    {.kind = Kind::lamb, .trust = 1},
    {.kind = Kind::lamb, .weight_decay = 0.05, .eps = 1e-6, .beta1 = 0.8, .beta2 = 0.95},
    {.kind = Kind::asup, .momentum = 0.9},
    {.kind = Kind::asup, .momentum = 0.7, .weight_decay = 0.01, .alpha = 0.9, .eps = 1e-3},
    {.kind = Kind::merge},
};

Floats random_floats(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Floats floats(count);
  for (float& x : floats) x = normal(random);
  return floats;
}

// Parameters, their state and some copies, `offset` floats after the start of their memory, between
// guards.
class Memory {
 public:
  Memory(const Rule& rule, const Floats& parameters, std::size_t offset = 0, std::size_t copies = 0)
      : begin_(kGuards + offset), count_(parameters.size()) {
    for (std::size_t row = 0; row < 1 + state_slots(rule) + copies; ++row) {
      rows_.emplace_back(begin_ + count_ + kGuards, kGuard);
      std::fill_n(rows_[row].begin() + static_cast<long>(begin_), count_, 0.0f);
    }
    std::ranges::copy(parameters, this->parameters());
    for (std::size_t slot = 0; slot < state_slots(rule); ++slot) state_.push_back(row(1 + slot));
    for (std::size_t copy = 0; copy < copies; ++copy)
      copies_.push_back(row(1 + state_slots(rule) + copy));
  }

  float* parameters() { return row(0); }
  float* const* state() const { return state_.data(); }
  const std::vector<float*>& copies() const { return copies_; }
  std::size_t count() const { return count_; }

  Floats values() { return {parameters(), parameters() + count_}; }
  // Parameters and state, one row after the other.
  Floats all() {
    Floats result;
    for (std::size_t i = 0; i < 1 + state_.size(); ++i)
      result.insert(result.end(), row(i), row(i) + count_);
    return result;
  }
  bool guards_hold() const {
    for (const Floats& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i)
        if ((i < begin_ || i >= begin_ + count_) && row[i] != kGuard) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuards = 16;
  static constexpr float kGuard = 12345;

  float* row(std::size_t i) { return rows_[i].data() + begin_; }

  std::size_t begin_, count_;
  std::vector<Floats> rows_;
  std::vector<float*> state_, copies_;
};

void run(const Table& table, const Rule& rule, const UpdateStep& step, Memory& memory,
         Gradient gradient) {
  table.update(rule, step, memory.parameters(), memory.state(), gradient.data(), gradient.size(),
               memory.copies().data(), memory.copies().size(), memory.count());
}

bool same_bits(const Floats& a, const Floats& b) {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  return std::ranges::equal(a, b, {}, bits, bits);
}

// A schedule of learning rates, so that rates in and outside the momentum are told apart.
UpdateStep step_at(std::uint64_t update) {
  return {.lr = 0.05 / (1 + 0.02 * static_cast<double>(update)),
          .updates = update,
          .trust_ratio = 0.5 + 0.001 * static_cast<double>(update)};
}

class UpdateTest : public ::testing::TestWithParam<Rule> {
 protected:
  const Rule& rule() const { return GetParam(); }
};

TEST_P(UpdateTest, FollowsTheReferenceFor100Steps) {
  constexpr std::size_t kCount = 257;
  const Floats first = random_floats(kCount, 1);
  std::vector<reference::Parameter> wanted(kCount);
  for (std::size_t i = 0; i < kCount; ++i) wanted[i].w = first[i];
  Memory memory(rule(), first);
  double farthest = 0;
  for (std::uint64_t update = 1; update <= 100; ++update) {
    const Floats g = random_floats(kCount, 100 + update);
    const GradientSource source{g.data()};
    kernels::update(rule(), step_at(update), memory.parameters(), memory.state(), {&source, 1}, {},
                    kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      reference::update(rule(), step_at(update), wanted[i], g[i]);
      farthest = std::max(farthest, std::fabs(wanted[i].w));
    }
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_NEAR(memory.parameters()[i], wanted[i].w, 1e-6 * farthest)
          << "parameter " << i << " after update " << update;
  }
}

TEST_P(UpdateTest, EveryInstructionSetGivesTheSameBits) {
  constexpr std::size_t kCount = 20011;
  const Floats first = random_floats(kCount, 2), saw = random_floats(kCount, 3);
  std::vector<Floats> results;
  for (const Table* table : supported_tables()) {
    Memory memory(rule(), first, results.size());
    for (std::uint64_t update = 1; update <= 5; ++update) {
      const Floats a = random_floats(kCount, 2 * update), b = random_floats(kCount, 3 * update);
      const GradientSource sources[] = {{a.data(), 0.3f}, {b.data(), 0.7f, saw.data(), 0.1f}};
      run(*table, rule(), step_at(update), memory, sources);
    }
    EXPECT_TRUE(memory.guards_hold()) << table->name;
    results.push_back(memory.all());
    EXPECT_TRUE(same_bits(results.back(), results.front())) << table->name;
  }
}

// Every count and place gives each parameter the bits that it has in one long row.
TEST_P(UpdateTest, PiecesEqualTheWhole) {
  constexpr std::size_t kCount = 5003;
  const Floats first = random_floats(kCount, 4), g = random_floats(kCount, 5);
  for (const Table* table : supported_tables()) {
    Memory whole(rule(), first);
    const GradientSource source{g.data()};
    run(*table, rule(), step_at(1), whole, {&source, 1});
    const Floats wanted = whole.values();
    for (const std::size_t count : {0, 1, 2, 3, 13, 15, 16, 17, 31, 97, 2048, 2053, 4999})
      for (std::size_t offset = 0; offset < 4; ++offset) {
        SCOPED_TRACE(::testing::Message() << table->name << ", " << count << " at " << offset);
        const auto begin = static_cast<long>(offset), end = begin + static_cast<long>(count);
        Memory piece(rule(), {first.begin() + begin, first.begin() + end}, offset, 1);
        const GradientSource part{g.data() + offset};
        run(*table, rule(), step_at(1), piece, {&part, 1});
        const Floats values{wanted.begin() + begin, wanted.begin() + end};
        ASSERT_TRUE(same_bits(piece.values(), values));
        ASSERT_TRUE(same_bits({piece.copies()[0], piece.copies()[0] + count}, values));
        ASSERT_TRUE(piece.guards_hold());
      }
  }
}

TEST_P(UpdateTest, CopiesEqualTheParameters) {
  constexpr std::size_t kCount = 7001;
  Memory memory(rule(), random_floats(kCount, 6), 1, 5);
  const Floats g = random_floats(kCount, 7);
  const GradientSource source{g.data()};
  kernels::update(rule(), step_at(1), memory.parameters(), memory.state(), {&source, 1},
                  memory.copies(), kCount);
  for (const float* copy : memory.copies())
    EXPECT_TRUE(same_bits({copy, copy + kCount}, memory.values()));
  EXPECT_FALSE(same_bits(memory.values(), random_floats(kCount, 6)));
  EXPECT_TRUE(memory.guards_hold());
}

std::string name_of_case(const ::testing::TestParamInfo<Rule>& info) {
  return std::string(name_of(info.param.kind)) + "_" + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(All, UpdateTest, ::testing::ValuesIn(kRules), name_of_case);

// So long that copies go around the caches, and at no line's beginning.
TEST(LongUpdate, CopiesEqualTheParameters) {
  constexpr std::size_t kCount = (std::size_t{8} << 20) + 3;
  const Rule sgd;
  Memory memory(sgd, Floats(kCount, 1.0f), 1, 2);
  Floats g(kCount);
  for (std::size_t i = 0; i < kCount; ++i) g[i] = static_cast<float>(i);
  const GradientSource source{g.data()};
  update(sgd, {.lr = 0.5}, memory.parameters(), memory.state(), {&source, 1}, memory.copies(),
         kCount);
  EXPECT_EQ(memory.parameters()[12345], 1 - 0.5f * 12345);
  for (const float* copy : memory.copies())
    EXPECT_TRUE(same_bits({copy, copy + kCount}, memory.values()));
  EXPECT_TRUE(memory.guards_hold());
}

// One operation at a time, whatever the compiler would fuse.
float rounded(float x) {
  volatile float kept = x;
  return kept;
}

// The gradient itself: what plain descent at a rate of 1 takes off parameters that are 0.
Floats added_up(const Table& table, Gradient gradient, std::size_t count) {
  const Rule sgd;
  Memory memory(sgd, Floats(count));
  run(table, sgd, {.lr = 1}, memory, gradient);
  Floats result = memory.values();
  for (float& x : result) x = -x;
  return result;
}

TEST(Gradient, IsTheWeightedSumFromLeftToRight) {
  constexpr std::size_t kCount = 4101;
  const float weights[] = {0.5f, 0.3f, 0.15f, 0.05f};
  std::vector<Floats> data;
  std::vector<GradientSource> gradient;
  Floats wanted(kCount, 0.0f);
  for (std::size_t s = 0; s < 4; ++s) {
    data.push_back(random_floats(kCount, 10 + s));
    gradient.push_back({data[s].data(), weights[s]});
    for (std::size_t i = 0; i < kCount; ++i)
      wanted[i] = rounded(wanted[i] + rounded(weights[s] * data[s][i]));
    for (const Table* table : supported_tables())
      EXPECT_TRUE(same_bits(added_up(*table, gradient, kCount), wanted))
          << table->name << ", " << s + 1 << " sources";
  }
}

TEST(Gradient, OfSeveralSourcesMovesAsTheirSum) {
  constexpr std::size_t kCount = 3001;
  const Rule rule{.kind = Kind::adam, .weight_decay = 0.01};
  const Floats first = random_floats(kCount, 1);
  Memory of_sources(rule, first), of_sum(rule, first);
  for (std::uint64_t update = 1; update <= 20; ++update) {
    const Floats a = random_floats(kCount, update), b = random_floats(kCount, 50 + update);
    Floats sum(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      sum[i] = rounded(rounded(0.75f * a[i]) + rounded(0.25f * b[i]));
    const GradientSource sources[] = {{a.data(), 0.75f}, {b.data(), 0.25f}}, one{sum.data()};
    run(best_table(), rule, step_at(update), of_sources, sources);
    run(best_table(), rule, step_at(update), of_sum, {&one, 1});
  }
  EXPECT_TRUE(same_bits(of_sources.all(), of_sum.all()));
}

TEST(Compensation, AddsLambdaTimesTheSquareTimesTheWay) {
  constexpr std::size_t kCount = 1009;
  const Floats now = random_floats(kCount, 1), saw = random_floats(kCount, 2);
  const Floats g = random_floats(kCount, 3);
  const float weight = 0.5f, lambda = 0.04f;
  const double lr = 0.25;
  const GradientSource source{g.data(), weight, saw.data(), lambda};
  const Rule sgd;
  for (const Table* table : supported_tables()) {
    Memory memory(sgd, now);
    run(*table, sgd, {.lr = lr}, memory, {&source, 1});
    for (std::size_t i = 0; i < kCount; ++i) {
      const double x = g[i];
      const double compensated = x + lambda * x * x * (double{now[i]} - double{saw[i]});
      ASSERT_NEAR(memory.values()[i], now[i] - lr * weight * compensated, 2e-6)
          << table->name << ", parameter " << i;
    }
  }
}

TEST(Compensation, IsNothingWhereNothingMoved) {
  constexpr std::size_t kCount = 101;
  const Floats now = random_floats(kCount, 1), g = random_floats(kCount, 3);
  const Rule rule{.kind = Kind::momentum, .momentum = 0.9};
  const GradientSource plain{g.data()}, compensated{g.data(), 1, now.data(), 2.0f};
  Memory a(rule, now), b(rule, now);
  run(best_table(), rule, step_at(1), a, {&plain, 1});
  run(best_table(), rule, step_at(1), b, {&compensated, 1});
  EXPECT_TRUE(same_bits(a.all(), b.all()));
}

// A worker's own memory holds what it saw, and gets the new parameters.
TEST(Compensation, ABackupMayBeACopy) {
  constexpr std::size_t kCount = 5003;
  const Rule rule{.kind = Kind::asup, .momentum = 0.9};
  const Floats now = random_floats(kCount, 1), saw = random_floats(kCount, 2);
  const Floats g = random_floats(kCount, 3);
  const GradientSource apart{g.data(), 1, saw.data(), 0.04f};
  Memory wanted(rule, now);
  run(best_table(), rule, step_at(1), wanted, {&apart, 1});

  Memory memory(rule, now);
  Floats workers = saw;
  const GradientSource source{g.data(), 1, workers.data(), 0.04f};
  float* const copies[] = {workers.data()};
  update(rule, step_at(1), memory.parameters(), memory.state(), {&source, 1}, copies, kCount);
  EXPECT_TRUE(same_bits(memory.values(), wanted.values()));
  EXPECT_TRUE(same_bits(workers, wanted.values()));
}

// The first gradient counts in full; dampening begins with the second.
TEST(Momentum, BeginsWithTheFirstGradient) {
  const Rule rule{.kind = Kind::momentum, .momentum = 0.5, .dampening = 0.75};
  Memory memory(rule, {0.0f});
  const float g = 8;
  const GradientSource source{&g};
  update(rule, {.lr = 1, .updates = 1}, memory.parameters(), memory.state(), {&source, 1}, {}, 1);
  EXPECT_EQ(memory.parameters()[0], -8);
  update(rule, {.lr = 1, .updates = 2}, memory.parameters(), memory.state(), {&source, 1}, {}, 1);
  EXPECT_EQ(memory.parameters()[0], -8 - (0.5f * 8 + 0.25f * 8));
}

// 1 / √(1 − alpha) times as long without the correction.
TEST(Asup, FirstStepIsTheLearningRate) {
  const Rule rule{.kind = Kind::asup, .momentum = 0.9, .alpha = 0.99, .eps = 0};
  Memory memory(rule, {0.0f, 0.0f});
  const float g[] = {8, -0.001f};
  const GradientSource source{g};
  update(rule, {.lr = 0.25}, memory.parameters(), memory.state(), {&source, 1}, {}, 2);
  EXPECT_FLOAT_EQ(memory.parameters()[0], -0.25f);
  EXPECT_FLOAT_EQ(memory.parameters()[1], 0.25f);
}

// However many samples are pushed at once.
TEST(Merge, GoesNoFurtherThanToTheMean) {
  const Floats pushed(10, 3);
  const Rule rule{.kind = Kind::merge};
  for (const double lr : {0.5, 1.0, 1.7}) {
    Memory memory(rule, Floats(10, 1));
    const GradientSource source{pushed.data()};
    run(best_table(), rule, {.lr = lr}, memory, {&source, 1});
    EXPECT_EQ(memory.values(), Floats(10, lr < 1 ? 2 : 3)) << lr;
  }
}

TEST(Adam, CorrectionsFadeAfterManyUpdates) {
  const Rule rule{.kind = Kind::adam, .eps = 0};
  Memory memory(rule, {0.0f});
  memory.state()[0][0] = 3;
  memory.state()[1][0] = 9;
  const float g = 3;
  const GradientSource source{&g};
  update(rule, {.lr = 0.5, .updates = 10'000'000'000}, memory.parameters(), memory.state(),
         {&source, 1}, {}, 1);
  EXPECT_FLOAT_EQ(memory.parameters()[0], -0.5f);
}

TEST(SumsOfSquares, AgreeWithDoublesOnEveryInstructionSet) {
  for (const std::size_t count : {0, 1, 7, 16, 17, 2049, 10007}) {
    const Floats w = random_floats(count, 1), g = random_floats(count, 2);
    const Floats saw = random_floats(count, 3);
    double parameters = 0, gradient = 0;
    for (std::size_t i = 0; i < count; ++i) {
      parameters += double{w[i]} * w[i];
      const double x = 0.5 * (g[i] + 0.1 * g[i] * g[i] * (double{w[i]} - saw[i]));
      gradient += x * x;
    }
    const GradientSource source{g.data(), 0.5f, saw.data(), 0.1f};
    SquareSums first;
    for (const Table* table : supported_tables()) {
      SquareSums sums;
      table->sums_of_squares(w.data(), &source, 1, count, sums);
      EXPECT_EQ(table->sum_of_squares(w.data(), count), sums.parameters);
      EXPECT_NEAR(sums.parameters, parameters, 1e-12 * parameters) << table->name;
      EXPECT_NEAR(sums.gradient, gradient, 1e-6 * gradient) << table->name;
      if (table == supported_tables().front()) first = sums;
      EXPECT_EQ(sums.parameters, first.parameters) << table->name;
      EXPECT_EQ(sums.gradient, first.gradient) << table->name;
    }
  }
}

TEST(SumsOfSquares, PiecesAddUp) {
  const Floats w = {3, 4, 12}, g = {1, 2, 2};
  const GradientSource begin{g.data()}, end{g.data() + 1};
  SquareSums sums = sums_of_squares(w.data(), {&begin, 1}, 1);
  sums += sums_of_squares(w.data() + 1, {&end, 1}, 2);
  EXPECT_EQ(sums.parameters, 169);
  EXPECT_EQ(sums.gradient, 9);
}

// What a rule measures is what its update then does, and state is as it was.
TEST(SumsForRatio, AgreeWithDoublesOnEveryInstructionSet) {
  for (const Rule& rule : {Rule{.kind = Kind::lars, .weight_decay = 0.1},
                           Rule{.kind = Kind::lamb, .weight_decay = 0.1, .eps = 1e-6}})
    for (const std::size_t count : {1, 17, 2049, 10007}) {
      const Floats w = random_floats(count, 1), g = random_floats(count, 2);
      Floats mean = random_floats(count, 3), square = random_floats(count, 4);
      for (float& each : square) each *= each;
      const UpdateStep step{.lr = 0.1, .updates = 5};
      double parameters = 0, measured = 0;
      for (std::size_t i = 0; i < count; ++i) {
        reference::Parameter p{.w = w[i], .mean = mean[i], .square = square[i]};
        const double x = 0.5 * g[i];
        const double r = rule.kind == Kind::lamb ? reference::lamb_direction(rule, step, p, x) : x;
        parameters += p.w * p.w;
        measured += r * r;
      }
      const Floats mean_before = mean, square_before = square;
      const float* state[] = {mean.data(), square.data()};
      const GradientSource source{g.data(), 0.5f};
      SquareSums first;
      for (const Table* table : supported_tables()) {
        SquareSums sums;
        table->sums_for_ratio(rule, step, w.data(), state, &source, 1, count, sums);
        EXPECT_NEAR(sums.parameters, parameters, 1e-12 * parameters) << table->name;
        EXPECT_NEAR(sums.gradient, measured, 1e-5 * measured) << table->name;
        if (table == supported_tables().front()) first = sums;
        EXPECT_EQ(sums.gradient, first.gradient) << table->name;
      }
      EXPECT_TRUE(same_bits(mean, mean_before) && same_bits(square, square_before));
    }
}

TEST(TrustRatio, IsThePapers) {
  const Rule lars{.kind = Kind::lars, .weight_decay = 0.1, .trust = 0.5};
  EXPECT_DOUBLE_EQ(trust_ratio(lars, {.parameters = 169, .gradient = 9}),
                   0.5 * 13 / (3 + 0.1 * 13));
  const Rule lamb{.kind = Kind::lamb, .weight_decay = 0.1, .trust = 1};
  EXPECT_DOUBLE_EQ(trust_ratio(lamb, {.parameters = 169, .gradient = 9}), 13.0 / 3);
}

TEST(TrustRatio, IsOneWhereANormIsZero) {
  for (const Rule& rule : {Rule{.kind = Kind::lars}, Rule{.kind = Kind::lamb, .trust = 1}}) {
    EXPECT_EQ(trust_ratio(rule, {.parameters = 0, .gradient = 9}), 1);
    EXPECT_EQ(trust_ratio(rule, {.parameters = 9, .gradient = 0}), 1);
    EXPECT_EQ(trust_ratio(rule, {}), 1);
  }
  EXPECT_EQ(trust_ratio({.kind = Kind::adam}, {.parameters = 9, .gradient = 1}), 1);
}

TEST(UpdateErrors, SayWhatIsWrong) {
  Floats w(8), g(8), v(8);
  float* const state[] = {v.data()};
  const Rule rule{.kind = Kind::momentum, .momentum = 0.9};
  const auto call = [&](const UpdateStep& step, const float* gradient, float* copy) {
    const GradientSource source{gradient};
    return message_of<Error>([&] {
      update(rule, step, w.data(), state, Gradient(&source, gradient == nullptr ? 0 : 1),
             std::span(&copy, copy == nullptr ? 0 : 1), 7);
    });
  };
  EXPECT_EQ(call({}, nullptr, nullptr),
            "kernels: nothing to update with: the gradient has no sources");
  EXPECT_EQ(call({.updates = 0}, g.data(), nullptr),
            "kernels: updates count from 1 on; this one is number 0");
  EXPECT_NE(call({}, w.data() + 1, nullptr).find("the gradient at"), std::string::npos);
  EXPECT_NE(call({}, g.data(), w.data() + 1).find("the copy at"), std::string::npos);
  EXPECT_EQ(call({}, g.data(), nullptr), "");
}

}  // namespace
}  // namespace asup::kernels
