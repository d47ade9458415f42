// Updates of a shard that hold only some of a step's samples.
#include <gmock/gmock.h>

#include "asup/ps/shard.h"

namespace asup::ps {
namespace {

constexpr std::uint64_t kCount = 3000;
constexpr double kLr[] = {0.1};

ServerSetup setup_of(const kernels::Rule& rule) {
  ServerSetup setup;
  setup.layout = layout::packed({{"w", kCount}});
  setup.rules = {rule};
  return setup;
}

// As Pacer has it: the gain has the share in it.
void push(Shard& shard, const std::vector<float>& gradient, double share) {
  const std::vector<Stretch> whole = {{{0, kCount}, gradient.data()}};
  Shard::Job job;
  job.gain = share;
  job.share = share;
  job.sources = {{1, kLr, whole}};
  shard.begin(job);
  for (std::size_t part = 0; part < shard.measures(job); ++part) shard.measure(job, part);
  for (std::size_t part = 0; part < shard.parts(); ++part) shard.run(job, part);
}

std::vector<float> gradient_of(int seed) {
  std::vector<float> gradient(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    gradient[i] = static_cast<float>(
        static_cast<int>((i * 7 + static_cast<std::size_t>(seed) * 13) % 11) - 5);
  return gradient;
}

Shard shard_of(const kernels::Rule& rule) {
  Shard shard({0, kCount}, setup_of(rule), {});
  std::fill(shard.parameters(), shard.parameters() + kCount, 1.0f);
  return shard;
}

TEST(ShardInParts, ComesToTheSameAsInWholeSteps) {
  for (const kernels::Rule& rule :
       {kernels::Rule{.kind = kernels::Rule::Kind::momentum, .momentum = 0.9, .weight_decay = 0.01},
        kernels::Rule{.kind = kernels::Rule::Kind::nesterov, .momentum = 0.9},
        kernels::Rule{.kind = kernels::Rule::Kind::adam},
        kernels::Rule{.kind = kernels::Rule::Kind::lars, .momentum = 0.9},
        kernels::Rule{.kind = kernels::Rule::Kind::lamb, .weight_decay = 0.01}})
    for (const int parts : {4, 16}) {
      Shard whole = shard_of(rule), cut = shard_of(rule);
      for (int step = 0; step < 3; ++step) {
        push(whole, gradient_of(step), 1);
        for (int part = 0; part < parts; ++part) push(cut, gradient_of(step), 1.0 / parts);
      }
      EXPECT_EQ(cut.steps_of({0, kCount}), 3);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_NEAR(cut.parameters()[i], whole.parameters()[i], 3e-5)
            << kernels::describe(rule) << ", " << parts << " parts, element " << i;
        ASSERT_NEAR(cut.state()[0].data()[i], whole.state()[0].data()[i], 3e-5)
            << kernels::describe(rule) << ", " << parts << " parts, element " << i;
      }
    }
}

// The ratio of a part is that of the mean gradient so far: two that are nearly opposite leave one
// that is small, and the ratio of that is large.
TEST(ShardInParts, LarsTakesTheNormOfTheMean) {
  Shard shard = shard_of({.kind = kernels::Rule::Kind::lars, .trust = 0.01});
  push(shard, std::vector<float>(kCount, 4.0f), 0.5);
  const double first = 1 - 0.1 * 0.5 * 0.01 * (1 / 4.0) * 4;
  ASSERT_NEAR(shard.parameters()[0], first, 1e-6);
  push(shard, std::vector<float>(kCount, -2.0f), 0.5);
  EXPECT_NEAR(shard.parameters()[0], first + 0.1 * 0.5 * 0.01 * (first / 1.0) * 2, 1e-6);
}

// A part moves by its share of what a step of the same length would: a tenth of the norm at a
// learning rate of 0.1.
TEST(ShardInParts, LambMovesByTheNorm) {
  Shard whole = shard_of({.kind = kernels::Rule::Kind::lamb, .trust = 1});
  push(whole, std::vector<float>(kCount, 4.0f), 1);
  EXPECT_NEAR(whole.parameters()[0], 0.9, 1e-6);
  Shard part = shard_of({.kind = kernels::Rule::Kind::lamb, .trust = 1});
  push(part, std::vector<float>(kCount, 4.0f), 0.5);
  EXPECT_NEAR(part.parameters()[0], 0.95, 1e-6);
}

TEST(ShardInParts, ASharesOfAStepAreCounted) {
  Shard shard = shard_of({.kind = kernels::Rule::Kind::adam});
  push(shard, gradient_of(0), 0.75);
  EXPECT_EQ(shard.steps_of({0, kCount}), 0.75);
  push(shard, gradient_of(1), 0.5);
  EXPECT_EQ(shard.steps_of({0, kCount}), 1.25);
  // Another one, which goes on from the same, does the same.
  Shard other = shard_of({.kind = kernels::Rule::Kind::adam});
  Floats parameters(kCount);
  std::copy_n(shard.parameters(), kCount, parameters.data());
  std::vector<Floats> state;
  for (const Floats& slot : shard.state())
    std::copy_n(slot.data(), kCount, state.emplace_back(kCount).data());
  other.begin_with(std::move(parameters), std::move(state));
  other.set_steps({0, kCount}, 1.25);
  for (Shard* each : {&shard, &other}) push(*each, gradient_of(2), 0.75);
  EXPECT_EQ(other.steps_of({0, kCount}), 2);
  for (std::size_t slot = 0; slot < 3; ++slot)
    EXPECT_TRUE(std::equal(other.state()[slot].data(), other.state()[slot].data() + kCount,
                           shard.state()[slot].data()));
  EXPECT_TRUE(std::equal(other.parameters(), other.parameters() + kCount, shard.parameters()));
}

}  // namespace
}  // namespace asup::ps
