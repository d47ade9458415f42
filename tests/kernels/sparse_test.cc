#include "asup/kernels/sparse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "asup/kernels/isa/table.h"
#include "tests/kernels/numbers.h"

namespace asup::kernels {
namespace {

struct Case {
  const char* name;
  Accumulation how;
  bool has_momentum;
};

const Case kCases[] = {{"sums alone", {}, false},
                       {"momentum", {0.9f, 1, 1, 0}, true},
                       {"Nesterov's", {0.9f, 0.9f, 1, 1}, true}};

TEST(Accumulate, FollowsItsEquationsOnEveryInstructionSet) {
  for (const Table* table : supported_tables())
    for (const Case& each : kCases)
      for (const std::size_t count : {0, 1, 63, 64, 65, 1000})
        for (const bool in_place : {false, true}) {
          SCOPED_TRACE(::testing::Message() << table->name << ", " << each.name << ", " << count);
          const Floats g = numbers(count, 1), u = numbers(count, 2), v = numbers(count, 3);
          Floats gradient = g, u_before = u, v_before = v, u_after(count), v_after(count);
          Floats& u_to = in_place ? u_before : u_after;
          Floats& v_to = in_place ? v_before : v_after;
          std::vector<std::uint32_t> found(count), expected;
          const Kept momentum = each.has_momentum ? Kept{u_before.data(), u_to.data()} : Kept{};
          const std::size_t total =
              table->accumulate(each.how, gradient.data(), momentum, {v_before.data(), v_to.data()},
                                count, 2, found.data(), count);
          for (std::size_t i = 0; i < count; ++i) {
            volatile float moved = each.how.carry * u[i];  // rounded at each operation
            moved = moved + each.how.gain * g[i];
            volatile float sum = v[i];
            if (each.has_momentum) {
              volatile const float part = each.how.through * moved;
              sum = sum + part;
              EXPECT_EQ(u_to[i], moved);
            }
            volatile const float own = each.how.direct * g[i];
            sum = sum + own;
            EXPECT_EQ(v_to[i], sum);
            EXPECT_EQ(gradient[i], 0);
            if (std::abs(sum) >= 2) expected.push_back(static_cast<std::uint32_t>(i));
          }
          found.resize(total);
          EXPECT_EQ(found, expected);
        }
}

TEST(Accumulate, FindsWhatIsNoNumberAndKeepsToItsRoom) {
  for (const Table* table : supported_tables()) {
    Floats gradient(200, 0), sum(200, 0);
    gradient[3] = std::numeric_limits<float>::quiet_NaN();
    gradient[70] = -std::numeric_limits<float>::infinity();
    gradient[150] = 1;
    gradient[199] = 0.5f;  // less than the least
    std::vector<std::uint32_t> found(3, 77);
    EXPECT_EQ(table->accumulate({}, gradient.data(), {}, {sum.data(), sum.data()}, 200, 1,
                                found.data(), 2),
              3u);
    EXPECT_EQ(found, (std::vector<std::uint32_t>{3, 70, 77}));
  }
}

// What is written past the caches is what would be written into them.
TEST(Accumulate, OfManyNumbersIsWhatItIsOfFew) {
  constexpr std::size_t kMany = (1 << 20) + 17, kFew = 1 << 15;
  for (const Table* table : supported_tables()) {
    const Floats g = numbers(kMany, 1), u = numbers(kMany, 2), v = numbers(kMany, 3);
    Floats gradient = g, u_to(kMany + 16), v_to(kMany + 16), u_few(kMany), v_few(kMany);
    const auto aligned = [](Floats& to) {
      return to.data() + (-reinterpret_cast<std::uintptr_t>(to.data()) % 64) / sizeof(float);
    };
    std::vector<std::uint32_t> found(kMany), found_few(kMany);
    const Accumulation how{0.9f, 1, 1, 0};
    found.resize(table->accumulate(how, gradient.data(), {u.data(), aligned(u_to)},
                                   {v.data(), aligned(v_to)}, kMany, 2, found.data(), kMany));
    gradient = g;
    std::size_t total = 0;
    for (std::size_t at = 0; at < kMany; at += kFew) {
      const std::size_t part = std::min(kFew, kMany - at);
      const std::size_t here =
          table->accumulate(how, &gradient[at], {&u[at], &u_few[at]}, {&v[at], &v_few[at]}, part, 2,
                            &found_few[total], kMany - total);
      for (std::size_t i = total; i < total + here; ++i)
        found_few[i] += static_cast<std::uint32_t>(at);
      total += here;
    }
    found_few.resize(total);
    EXPECT_EQ(found, found_few);
    EXPECT_TRUE(std::equal(u_few.begin(), u_few.end(), aligned(u_to)));
    EXPECT_TRUE(std::equal(v_few.begin(), v_few.end(), aligned(v_to)));
  }
}

TEST(AddWhereNotZero, MovesWhatHasADirection) {
  for (const Table* table : supported_tables())
    for (const std::size_t count : {0, 1, 64, 130, 1000}) {
      const Floats before = numbers(count, 1);
      Floats after = before, few(count, 0);
      for (std::size_t i = 0; i < count; i += 97) few[i] = static_cast<float>(i) + 1;
      if (count > 200) few[200] = -0.0f;
      if (count > 300) few[300] = std::numeric_limits<float>::denorm_min();
      table->add_where_not_zero(after.data(), few.data(), -0.5f, count);
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(after[i], before[i] - 0.5f * few[i]);
    }
}

}  // namespace
}  // namespace asup::kernels
