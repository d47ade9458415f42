#include "asup/kernels/code.h"

#include <gtest/gtest.h>

#include <functional>

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"
#include "tests/kernels/reference_code.h"
#include "tests/kernels/samples.h"

namespace asup::kernels {
namespace {

using Limits = std::numeric_limits<float>;

// The functions of one instruction set, or the public ones.
struct Functions {
  std::string name;
  std::function<void(Code, std::byte*, const float*, std::size_t, const Encoding&)> encode;
  std::function<void(Code, float*, const std::byte*, std::size_t)> decode;
  std::function<void(Code, float*, const float*, const float*, std::span<const std::byte* const>,
                     std::size_t, float)>
      sum_codes;
};

std::vector<Functions> all_functions() {
  std::vector<Functions> all = {{"public", encode, decode, sum_codes}};
  for (const Table* table : supported_tables())
    all.push_back(
        {table->name,
         [table](Code code, std::byte* to, const float* from, std::size_t count,
                 const Encoding& how) {
           table->encode(code, to, from, count, how, how.noise ? &*how.noise : nullptr);
         },
         table->decode,
         [table](Code code, float* to, const float* own, const float* carried,
                 std::span<const std::byte* const> codes, std::size_t count, float factor) {
           table->sum_codes(code, to, own, carried, codes.data(), codes.size(), count, factor);
         }});
  return all;
}

// Between guards, at an odd address.
Array floats_at(std::span<const float> values, std::size_t offset) {
  Array array(Dtype::f32, values.size(), offset);
  std::ranges::copy(std::as_bytes(values), array.data());
  return array;
}
float* floats(Array& array) { return reinterpret_cast<float*>(array.data()); }

std::vector<float> normal(std::size_t count, std::uint64_t seed, float size = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> distribution(0, size);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(random);
  return values;
}

void expect_floats(const Array& array, std::span<const float> wanted, const char* what) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(reference::same(Dtype::f32, array[i], std::bit_cast<std::uint32_t>(wanted[i])))
        << what << " number " << i << " is "
        << std::bit_cast<float>(static_cast<std::uint32_t>(array[i])) << ", expected " << wanted[i];
  EXPECT_TRUE(array.guards_hold()) << what;
}

void expect_bytes(const Array& array, std::span<const std::byte> wanted) {
  ASSERT_EQ(array.count(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_EQ(static_cast<int>(array[i]), static_cast<int>(wanted[i])) << "byte " << i;
  EXPECT_TRUE(array.guards_hold());
}

// A NaN's bits are its own in bf16 and f16.
void expect_code(Code code, const Array& array, std::span<const std::byte> wanted) {
  if (!reference::is_half(code)) return expect_bytes(array, wanted);
  const Dtype dtype = reference::dtype_of(code);
  for (std::size_t i = 0; i < wanted.size() / 2; ++i)
    ASSERT_TRUE(reference::same(dtype, reference::load(dtype, array.data(), i),
                                reference::load(dtype, wanted.data(), i)))
        << "number " << i;
  EXPECT_TRUE(array.guards_hold());
}

// Encodes with everything, then in place, then with nothing but the code; decodes.
void check_encode(const Functions& functions, Code code, std::span<const float> from,
                  std::span<const float> carried, std::optional<std::uint64_t> seed,
                  std::size_t offset) {
  SCOPED_TRACE(::testing::Message()
               << functions.name << ", " << name_of(code) << ", " << from.size() << " at " << offset
               << (carried.empty() ? "" : ", carried") << (seed ? ", noise" : ""));
  const std::size_t count = from.size();
  const std::uint64_t first = 7 * kCodeBlock;
  const auto wanted = reference::encode(code, from, carried, seed, first);

  Array source = floats_at(from, offset), before = floats_at(carried, offset + 2);
  Array to(Dtype::u8, coded_bytes(code, count), offset + 1);
  Array lost(Dtype::f32, count, offset), decoded(Dtype::f32, count, offset + 3);
  Encoding how{.carried = carried.empty() ? nullptr : floats(before),
               .lost = floats(lost),
               .decoded = floats(decoded),
               .noise = seed,
               .first = first};
  functions.encode(code, to.data(), floats(source), count, how);
  expect_code(code, to, wanted.code);
  expect_floats(lost, wanted.lost, "lost");
  expect_floats(decoded, wanted.decoded, "decoded");
  expect_floats(source, from, "source");

  Array back(Dtype::f32, count, offset);
  functions.decode(code, floats(back), to.data(), count);
  expect_floats(back, wanted.decoded, "decode()'s");

  Array alone(Dtype::u8, to.count(), offset);
  functions.encode(code, alone.data(), floats(source), count,
                   {.carried = how.carried, .noise = seed, .first = first});
  expect_code(code, alone, wanted.code);

  if (!carried.empty()) how.lost = floats(before);
  how.decoded = floats(source);
  Array again(Dtype::u8, to.count(), 0);
  functions.encode(code, again.data(), floats(source), count, how);
  expect_code(code, again, wanted.code);
  expect_floats(carried.empty() ? lost : before, wanted.lost, "lost in place of carried");
  expect_floats(source, wanted.decoded, "decoded in place of the source");
}

void check_everywhere(Code code, std::span<const float> from, std::span<const float> carried,
                      std::size_t offset) {
  for (const Functions& functions : all_functions())
    for (const auto seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(0x5eed)}) {
      check_encode(functions, code, from, {}, seed, offset);
      check_encode(functions, code, from, carried, seed, offset);
    }
}

class CodeTest : public ::testing::TestWithParam<Code> {};

TEST_P(CodeTest, AgreesWithReference) {
  for (const std::size_t count : {0, 1, 3, 33, 1023, 1024, 1025, 2048, 5000})
    for (const std::size_t offset : {0, 1, 4})
      check_everywhere(GetParam(), normal(count, count), normal(count, count + 1, 0.1f), offset);
}

TEST_P(CodeTest, AgreesWithReferenceOnAnyBits) {
  std::mt19937_64 random(3);
  std::vector<float> from(20 * kCodeBlock), carried(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    // Blocks of like magnitude, finite: all from the smallest to the largest.
    const auto exponent = static_cast<std::uint32_t>(i / kCodeBlock * 13 + random() % 7);
    from[i] = std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x807fffff) |
                                   std::min<std::uint32_t>(exponent, 253) << 23);
    carried[i] = from[random() % (i + 1)] / 2;
  }
  check_everywhere(GetParam(), from, carried, 1);
}

TEST_P(CodeTest, SpecialValues) {
  const float values[] = {0.0f,
                          -0.0f,
                          Limits::denorm_min(),
                          -Limits::denorm_min(),
                          Limits::min(),
                          -Limits::min(),
                          1e-30f,
                          1e-28f,
                          1.0f,
                          -3e38f,
                          Limits::max(),
                          Limits::lowest(),
                          65519.0f,
                          65520.0f,
                          Limits::infinity(),
                          -Limits::infinity(),
                          Limits::quiet_NaN(),
                          -Limits::quiet_NaN()};
  for (const float value : values) {
    SCOPED_TRACE(value);
    const std::vector<float> alike(kCodeBlock + 100, value), carried(alike.size(), -0.0f);
    check_everywhere(GetParam(), alike, carried, 0);
    for (const std::size_t place : {0, 31, 700, 1023, 1024, 1123}) {
      std::vector<float> one = normal(alike.size(), 1);
      one[place] = value;
      check_everywhere(GetParam(), one, carried, 0);
    }
  }
}

TEST_P(CodeTest, WhatIsNotFiniteSpoilsNoLaterStep) {
  std::vector<float> from(2 * kCodeBlock, 1.0f), lost(from.size(), 0.0f), decoded(from.size());
  from[5] = Limits::quiet_NaN();
  from[6] = Limits::infinity();
  std::vector<std::byte> code(coded_bytes(GetParam(), from.size()));
  const Encoding how{.carried = lost.data(), .lost = lost.data(), .decoded = decoded.data()};
  encode(GetParam(), code.data(), from.data(), from.size(), how);
  EXPECT_TRUE(std::isnan(decoded[5]));
  EXPECT_FALSE(std::isfinite(decoded[6]));
  EXPECT_EQ(std::isnan(decoded[1023]), !reference::is_half(GetParam()));
  EXPECT_EQ(decoded[1024], 1.0f);
  for (const float value : lost) ASSERT_EQ(value, 0.0f);
  from[5] = from[6] = 1;
  encode(GetParam(), code.data(), from.data(), from.size(), how);
  for (const float value : decoded) ASSERT_EQ(value, 1.0f);
}

// decoded + lost = from + carried: exactly for bf16 and f16, and for integers to the nearest but
// where x is about half the scale; elsewhere to a rounding.
TEST_P(CodeTest, NothingIsLostButIntoLost) {
  const std::vector<float> from = normal(10 * kCodeBlock, 1),
                           carried = normal(from.size(), 2, 0.3f);
  std::vector<float> lost(from.size()), decoded(from.size());
  std::vector<std::byte> code(coded_bytes(GetParam(), from.size()));
  for (const auto seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(9)}) {
    encode(
        GetParam(), code.data(), from.data(), from.size(),
        {.carried = carried.data(), .lost = lost.data(), .decoded = decoded.data(), .noise = seed});
    const bool exact = GetParam() != Code::onebit && (!seed || reference::is_half(GetParam()));
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double difference = double{decoded[i]} + double{lost[i]} - double{from[i] + carried[i]};
      ASSERT_LE(std::fabs(difference), exact ? 0 : 0x1p-24 * std::fabs(lost[i])) << i;
    }
  }
}

// What decoded numbers of many steps come to stays within a step's loss of what went in.
TEST_P(CodeTest, FeedbackBringsBackWhatWasLost) {
  const std::size_t count = 3 * kCodeBlock + 5;
  const std::vector<float> from = normal(count, 5);
  std::vector<float> lost(count, 0.0f), decoded(count);
  std::vector<double> sum(count, 0.0);
  std::vector<std::byte> code(coded_bytes(GetParam(), count));
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    encode(GetParam(), code.data(), from.data(), count,
           {.carried = lost.data(), .lost = lost.data(), .decoded = decoded.data()});
    for (std::size_t i = 0; i < count; ++i) sum[i] += decoded[i];
  }
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_NEAR(sum[i] + lost[i], double{from[i]} * kSteps, 1e-3) << i;
}

TEST_P(CodeTest, SumsFromLeftToRight) {
  const Code code = GetParam();
  for (const Functions& functions : all_functions())
    for (const std::size_t count : {0, 1, 1023, 1024, 2500})
      for (const std::size_t sources : {0, 1, 3, 9})
        for (const bool with_carried : {false, true}) {
          SCOPED_TRACE(::testing::Message() << functions.name << ", " << count << " of " << sources
                                            << (with_carried ? ", carried" : ""));
          const float factor = 0.3f;
          const std::vector<float> own = normal(count, 1), carried = normal(count, 2, 1e-3f);
          std::vector<float> wanted = own;
          if (with_carried)
            for (std::size_t i = 0; i < count; ++i) wanted[i] += carried[i];
          std::vector<Array> codes;
          for (std::size_t source = 0; source < sources; ++source) {
            const auto coded =
                reference::encode(code, normal(count, source + 3, 100), {}, std::nullopt, 0);
            codes.emplace_back(Dtype::u8, coded.code.size(), source % 4);
            std::ranges::copy(coded.code, codes.back().data());
            for (std::size_t i = 0; i < count; ++i) wanted[i] += coded.decoded[i];
          }
          for (float& value : wanted) value *= factor;
          std::vector<const std::byte*> pointers;
          for (const Array& array : codes) pointers.push_back(array.data());

          Array mine = floats_at(own, 1), to(Dtype::f32, count, 2), before = floats_at(carried, 3);
          const float* others = with_carried ? floats(before) : nullptr;
          functions.sum_codes(code, floats(to), floats(mine), others, pointers, count, factor);
          expect_floats(to, wanted, "sum");
          expect_floats(mine, own, "own");
          functions.sum_codes(code, floats(mine), floats(mine), others, pointers, count, factor);
          expect_floats(mine, wanted, "sum in place");
        }
}

TEST_P(CodeTest, RefusesOverlap) {
  const Code code = GetParam();
  std::vector<float> memory(20000);
  float* const from = memory.data();
  float* const other = from + 4000;
  auto* const to = reinterpret_cast<std::byte*>(from + 10000);
  auto* const over = reinterpret_cast<std::byte*>(from + 1999);
  const std::size_t n = 2000;
  EXPECT_NO_THROW(encode(code, to, from, n, {.carried = other, .lost = other, .decoded = from}));
  EXPECT_THROW(encode(code, over, from, n), Error);
  EXPECT_THROW(encode(code, over, other, n, {.carried = from}), Error);
  EXPECT_THROW(encode(code, over, other, n, {.lost = from}), Error);
  EXPECT_THROW(encode(code, over, other, n, {.decoded = from}), Error);
  EXPECT_THROW(encode(code, to, from, n, {.carried = other, .lost = other + 1}), Error);
  EXPECT_THROW(encode(code, to, from, n, {.lost = from}), Error);
  EXPECT_THROW(encode(code, to, from, n, {.decoded = from + 1}), Error);
  EXPECT_THROW(encode(code, to, from, n, {.carried = other, .decoded = other}), Error);
  EXPECT_THROW(encode(code, to, from, n, {.lost = other, .decoded = other}), Error);
  EXPECT_THROW(decode(code, from, over, n), Error);
  const std::byte* const codes[] = {to, over};
  EXPECT_THROW(sum_codes(code, from, from, nullptr, codes, n, 1), Error);
  EXPECT_THROW(sum_codes(code, from, from + 1, nullptr, {}, n, 1), Error);
  EXPECT_THROW(sum_codes(code, from, other, from + 1, {}, n, 1), Error);
}

INSTANTIATE_TEST_SUITE_P(All, CodeTest, ::testing::ValuesIn(reference::kCodes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Code, Bytes) {
  EXPECT_EQ(coded_bytes(Code::bf16, 5), 10u);
  EXPECT_EQ(coded_bytes(Code::f16, 1025), 2050u);
  EXPECT_EQ(coded_bytes(Code::int8, 0), 0u);
  EXPECT_EQ(coded_bytes(Code::int8, 1), 1028u);
  EXPECT_EQ(coded_bytes(Code::int8, 1024), 1028u);
  EXPECT_EQ(coded_bytes(Code::int4, 1025), 2 * 516u);
  EXPECT_EQ(coded_bytes(Code::onebit, 2048), 2 * 132u);
}

TEST(Code, NoneIsNoCode) {
  float number = 1;
  std::byte byte{};
  EXPECT_EQ(name_of(Code::none), "none");
  EXPECT_THROW(coded_bytes(Code::none, 1), Error);
  EXPECT_THROW(encode(Code::none, &byte, &number, 1), Error);
  EXPECT_THROW(decode(Code::none, &number, &byte, 1), Error);
  EXPECT_THROW(sum_codes(Code::none, &number, &number, nullptr, {}, 1, 1), Error);
}

// By hand, from the comment of code.h.
TEST(Code, BlocksLieInMemoryAsTheHeaderSays) {
  std::vector<float> x(kCodeBlock, 0.0f);
  x[0] = -127, x[1] = 3, x[256 + 1] = -2, x[2 * 256 + 9] = 64, x[3 * 256 + 255] = 127;
  std::vector<std::byte> code(coded_bytes(Code::int8, x.size()));
  const auto byte = [&](std::size_t i) { return static_cast<int>(code[i]); };
  const auto scale = [&] {
    float value;
    std::memcpy(&value, code.data(), sizeof value);
    return value;
  };
  encode(Code::int8, code.data(), x.data(), x.size());
  EXPECT_EQ(scale(), 1.0f);
  EXPECT_EQ(byte(4), 0x81);
  EXPECT_EQ(byte(4 + 4), 3);
  EXPECT_EQ(byte(4 + 4 + 1), 0xfe);
  EXPECT_EQ(byte(4 + 9 * 4 + 2), 64);
  EXPECT_EQ(byte(4 + 255 * 4 + 3), 127);

  x.assign(kCodeBlock, 0.0f);
  x[0] = -7, x[128] = 2, x[7 * 128 + 3] = 7;
  encode(Code::int4, code.data(), x.data(), x.size());
  EXPECT_EQ(scale(), 1.0f);
  EXPECT_EQ(byte(4), 0xa1);
  EXPECT_EQ(byte(4 + 3 * 4 + 3), 0xf8);
  EXPECT_EQ(byte(4 + 3 * 4 + 2), 0x88);

  x.assign(kCodeBlock, 2.0f);
  x[1] = -2, x[32 + 1] = -2, x[31 * 32 + 31] = -2;
  encode(Code::onebit, code.data(), x.data(), x.size());
  EXPECT_EQ(scale(), 2.0f);
  EXPECT_EQ(byte(4), 0);
  EXPECT_EQ(byte(4 + 4), 3);
  EXPECT_EQ(byte(4 + 31 * 4 + 3), 0x80);
}

// Of a last block only the real numbers count.
TEST(Code, TheMeanOfAFewIsTheirs) {
  const float x[] = {1, -2, 6};
  float decoded[3];
  std::byte code[132];
  encode(Code::onebit, code, x, 3, {.decoded = decoded});
  EXPECT_EQ(decoded[0], 3.0f);
  EXPECT_EQ(decoded[1], -3.0f);
  EXPECT_EQ(decoded[2], 3.0f);
}

class NoiseTest : public ::testing::TestWithParam<Code> {
 protected:
  static constexpr std::size_t kCount = 512 * kCodeBlock;

  // What remains of x / scale, in units of the scale, with the largest of each block at its place.
  std::vector<double> rounded(float x, std::uint64_t seed) const {
    std::vector<float> from(kCount, x), decoded(kCount);
    for (std::size_t i = 0; i < kCount; i += kCodeBlock)
      from[i] = GetParam() == Code::int8 ? 127 : 7;
    std::vector<std::byte> code(coded_bytes(GetParam(), kCount));
    encode(GetParam(), code.data(), from.data(), kCount,
           {.decoded = decoded.data(), .noise = seed});
    std::vector<double> units(decoded.begin(), decoded.end());
    for (std::size_t i = 0; i < kCount; i += kCodeBlock) {
      EXPECT_EQ(units[i], from[i]);
      units[i] = x;
    }
    return units;
  }
};

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Of a[i] and b[i + lag]: 0 ± 1 standard deviation where they are independent.
double correlation(const std::vector<double>& a, const std::vector<double>& b, std::size_t lag) {
  const double mean_a = mean_of(a), mean_b = mean_of(b);
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i + lag < a.size(); ++i) {
    const double x = a[i] - mean_a, y = b[i + lag] - mean_b;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb) * std::sqrt(static_cast<double>(a.size() - lag));
}

TEST_P(NoiseTest, TheMeanIsRight) {
  for (const float x : {0.001f, 0.25f, 0.5f, -0.7f, 3.9f, -5.125f}) {
    const auto units = rounded(x, 11);
    const double up = x - std::floor(x);
    for (const double value : units) ASSERT_LE(std::fabs(value - x), 1);
    EXPECT_NEAR(mean_of(units), x, 4 * std::sqrt(up * (1 - up) / kCount)) << x;
  }
}

TEST_P(NoiseTest, WhatNeedsNoRoundingIsNotMoved) {
  for (const float x : {0.0f, 1.0f, -6.0f, 5.0f})
    for (const double value : rounded(x, 12)) ASSERT_EQ(value, x);
  const float most = GetParam() == Code::int8 ? -127 : -7;
  for (const double value : rounded(most, 13)) ASSERT_EQ(value, most);
}

// 127 / x is rounded, and so is its product with x: with the largest noise it comes to 127 1/2.
TEST_P(NoiseTest, StaysInTheRange) {
  float x = 1;
  while (reference::times(x, 127 / x) <= 127) x = std::nextafter(x, 2.0f);
  const std::vector<float> from(kCount, x);
  std::vector<float> decoded(kCount);
  std::vector<std::byte> code(coded_bytes(GetParam(), kCount));
  encode(GetParam(), code.data(), from.data(), kCount, {.decoded = decoded.data(), .noise = 14});
  for (const float value : decoded) ASSERT_NEAR(value, x, 1e-6);
}

TEST_P(NoiseTest, PlacesAndSeedsAreIndependent) {
  const auto units = rounded(0.5f, 100);
  for (const std::size_t lag : {1, 2, 4, 16, 128, 256, 512, 1024, 2048, 65536})
    EXPECT_LE(std::fabs(correlation(units, units, lag)), 4) << lag;
  for (const std::uint64_t seed : {101, 102, 356, 1124})
    for (const std::size_t lag : {0, 1, 512, 1024})
      EXPECT_LE(std::fabs(correlation(units, rounded(0.5f, seed), lag)), 4) << seed << " " << lag;
}

// The noise of a place is the same however the whole is cut up.
TEST_P(NoiseTest, DependsOnThePlaceInTheWhole) {
  const std::vector<float> from = normal(4 * kCodeBlock, 1);
  const std::uint64_t first = (std::uint64_t{1} << 40) + 3 * kCodeBlock;
  const std::size_t half = 2 * kCodeBlock, bytes = coded_bytes(GetParam(), half);
  std::vector<std::byte> whole(2 * bytes), parts(2 * bytes), elsewhere(2 * bytes);
  encode(GetParam(), whole.data(), from.data(), 2 * half, {.noise = 1, .first = first});
  encode(GetParam(), parts.data(), from.data(), half, {.noise = 1, .first = first});
  encode(GetParam(), parts.data() + bytes, from.data() + half, half,
         {.noise = 1, .first = first + half});
  EXPECT_EQ(whole, parts);
  encode(GetParam(), elsewhere.data(), from.data(), 2 * half, {.noise = 1, .first = half});
  EXPECT_NE(whole, elsewhere);
  EXPECT_THROW(encode(GetParam(), whole.data(), from.data(), half, {.noise = 1, .first = 5}),
               Error);
}

INSTANTIATE_TEST_SUITE_P(All, NoiseTest, ::testing::Values(Code::int8, Code::int4),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace asup::kernels
