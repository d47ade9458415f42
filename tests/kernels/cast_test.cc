#include "asup/kernels/cast.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"
#include "tests/kernels/reference_reduce.h"
#include "tests/kernels/samples.h"

namespace asup::kernels {
namespace {

using reference::Bits;

// Casts with every instruction set of this processor and with the public function.
void check_cast(const Array& input, Dtype to) {
  const Dtype from = input.dtype();
  std::vector<Bits> wanted;
  for (std::size_t i = 0; i < input.count(); ++i)
    wanted.push_back(reference::cast(from, input[i], to));
  const auto expect_equal = [&](const Array& output, const char* who) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_TRUE(reference::same(to, output[i], wanted[i]))
          << who << ": " << name_of(from) << " " << std::hex << input[i] << " to " << name_of(to)
          << " gave " << output[i] << ", expected " << wanted[i];
    EXPECT_TRUE(output.guards_hold()) << who;
  };
  for (const Table* table : supported_tables()) {
    Array output(to, input.count(), 1);
    table->cast(from, input.data(), to, output.data(), input.count());
    expect_equal(output, table->name);
  }
  Array output(to, input.count(), 0);
  cast(from, input.data(), to, output.data(), input.count());
  expect_equal(output, "cast");
}

class CastTest : public ::testing::TestWithParam<std::tuple<Dtype, Dtype>> {
 protected:
  Dtype from() const { return std::get<0>(GetParam()); }
  Dtype to() const { return std::get<1>(GetParam()); }
};

TEST_P(CastTest, AgreesWithReference) {
  for (const std::size_t count : {1, 3, 17, 64, 2049, 10007})
    for (const std::size_t offset : {0, 1})
      check_cast(random_array(from(), count, offset, count), to());
}

TEST_P(CastTest, SpecialValues) {
  const auto special = special_values(from());
  Array input(from(), special.size(), 0);
  for (std::size_t i = 0; i < special.size(); ++i) input.set(i, special[i]);
  check_cast(input, to());
}

TEST_P(CastTest, NothingIsFine) { cast(from(), nullptr, to(), nullptr, 0); }

INSTANTIATE_TEST_SUITE_P(All, CastTest,
                         ::testing::Combine(::testing::ValuesIn(reference::kDtypes),
                                            ::testing::ValuesIn(reference::kDtypes)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_to_" +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

class HalfTest : public ::testing::TestWithParam<Dtype> {};

TEST_P(HalfTest, EveryValueToFloat) {
  Array input(GetParam(), 65536, 0);
  for (std::size_t i = 0; i < 65536; ++i) input.set(i, i);
  check_cast(input, Dtype::f32);
  check_cast(input, Dtype::f64);
}

// Around the middle between every half and the next one: where rounding, rounding twice, and ties
// that do not go to even show.
TEST_P(HalfTest, RoundsAroundEveryMiddle) {
  for (const Dtype from : {Dtype::f32, Dtype::f64}) {
    Array input(from, 4 * 65536, 0);
    for (std::size_t i = 0; i < 65536; ++i) {
      const auto middle =
          (reference::decode(GetParam(), i) + reference::decode(GetParam(), i + 1)) / 2;
      const Bits bits = reference::encode_float(from, middle);
      for (std::size_t near = 0; near < 3; ++near) input.set(4 * i + near, bits - 1 + near);
      input.set(4 * i + 3, reference::cast(GetParam(), i, from));
    }
    check_cast(input, GetParam());
  }
}

// The exact i64 lies just beside the middle of two halves; by way of f32 or f64 it would be a tie.
TEST_P(HalfTest, IntegersRoundOnce) {
  std::vector<std::int64_t> values;
  for (int shift = 0; shift < 62; ++shift)
    for (const std::int64_t significand : {0x101, 0x103, 0x1ff, 0x801, 0x803, 0xfff})
      if (significand < (std::int64_t{1} << (62 - shift)))
        for (const std::int64_t near : {-1, 0, 1})
          for (const std::int64_t sign : {-1, 1})
            values.push_back(sign * ((significand << shift) + near));
  for (const Dtype from : {Dtype::i64, Dtype::i32}) {
    Array input(from, values.size(), 0);
    for (std::size_t i = 0; i < values.size(); ++i)
      input.set(i, reference::encode_integer(from, static_cast<std::uint64_t>(values[i])));
    check_cast(input, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(All, HalfTest, ::testing::Values(Dtype::f16, Dtype::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Cast, SaturatesToIntegers) {
  const float input[] = {1e30f, -1e30f, 300.7f, -300.7f, std::nanf(""), -0.9f, 127.9f, 128.0f};
  const std::int8_t wanted[] = {127, -128, 127, -128, 0, 0, 127, 127};
  std::int8_t output[8];
  cast(Dtype::f32, input, Dtype::i8, output, 8);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(output[i], wanted[i]) << input[i];
}

TEST(Cast, SameTypeInPlaceIsFine) {
  float value = 1.5f;
  cast(Dtype::f32, &value, Dtype::f32, &value, 1);
  EXPECT_EQ(value, 1.5f);
}

TEST(Cast, RefusesOverlap) {
  float values[16] = {};
  EXPECT_THROW(cast(Dtype::f32, values, Dtype::bf16, values + 1, 8), Error);
  EXPECT_THROW(cast(Dtype::f32, values, Dtype::bf16, values, 8), Error);
  EXPECT_NO_THROW(cast(Dtype::f32, values, Dtype::bf16, values + 8, 8));
}

}  // namespace
}  // namespace asup::kernels
