#include "asup/kernels/sparse.h"

#include <gtest/gtest.h>

#include <cmath>
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

}  // namespace
}  // namespace asup::kernels
