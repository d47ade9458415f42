#include "asup/kernels/momentum.h"

#include <gtest/gtest.h>

#include "asup/kernels/isa/table.h"
#include "tests/kernels/numbers.h"

namespace asup::kernels {
namespace {

constexpr float kM = 0.9f;
constexpr LeavingMomentum kKinds[] = {LeavingMomentum::plain, LeavingMomentum::nesterov};

// kM u + g, rounded at each operation.
float moved(float u, float g) {
  volatile const float part = kM * u;
  return part + g;
}

void expect_moved(LeavingMomentum kind, const Floats& g, const Floats& u, const float* gradient,
                  const float* after) {
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float expected = moved(u[i], g[i]);
    ASSERT_EQ(after[i], expected) << i;
    ASSERT_EQ(gradient[i], kind == LeavingMomentum::plain ? expected : moved(expected, g[i])) << i;
  }
}

TEST(AddMomentum, FollowsItsEquationsOnEveryInstructionSet) {
  for (const Table* table : supported_tables())
    for (const LeavingMomentum kind : kKinds)
      for (const std::size_t count : {0, 1, 15, 16, 17, 1000})
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(::testing::Message() << table->name << ", " << count);
          const Floats g = numbers(count, 1), u = numbers(count, 2);
          Floats gradient = g, before = u, after(count);
          Floats& to = in_place ? before : after;
          table->add_momentum(kind, kM, gradient.data(), {before.data(), to.data()}, count);
          expect_moved(kind, g, u, gradient.data(), to.data());
        }
}

// What is written past the caches is what would be written into them, wherever it lies.
TEST(AddMomentum, OfManyNumbersIsWhatItIsOfFew) {
  constexpr std::size_t kMany = (1 << 20) + 17;
  const Floats g = numbers(kMany, 1), u = numbers(kMany, 2);
  for (const Table* table : supported_tables())
    for (const LeavingMomentum kind : kKinds)
      for (const std::size_t off : {0, 1}) {
        SCOPED_TRACE(::testing::Message() << table->name << ", " << off);
        Floats gradient = g, after(kMany + 16 + off);
        const auto misaligned = reinterpret_cast<std::uintptr_t>(after.data()) % 64;
        float* to = after.data() + (64 - misaligned) % 64 / sizeof(float) + off;
        table->add_momentum(kind, kM, gradient.data(), {u.data(), to}, kMany);
        expect_moved(kind, g, u, gradient.data(), to);
      }
}

TEST(Scale, MultipliesEachNumberOnEveryInstructionSet) {
  for (const Table* table : supported_tables())
    for (const std::size_t count : {0, 1, 15, 16, 17, 1000}) {
      const Floats before = numbers(count, 1);
      Floats after = before;
      table->scale(after.data(), 0.3f, count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(after[i], 0.3f * before[i]) << table->name;
    }
}

}  // namespace
}  // namespace asup::kernels
