#include "asup/kernels/reduce.h"

#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/kernels/isa/table.h"
#include "tests/kernels/reference_reduce.h"
#include "tests/kernels/samples.h"
#include "tests/support/thrown.h"

namespace asup::kernels {
namespace {

using asup::testing::message_of;
using reference::Bits;

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product};

std::vector<Array> random_sources(Dtype dtype, std::size_t sources, std::size_t count,
                                  std::size_t offset) {
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < sources; ++i)
    arrays.push_back(random_array(dtype, count, i % 2 == 0 ? offset : 0, 1000 * count + i));
  return arrays;
}

std::vector<const void*> pointers(const std::vector<Array>& arrays) {
  std::vector<const void*> result;
  for (const Array& array : arrays) result.push_back(array.data());
  return result;
}

std::vector<Bits> expected(Dtype dtype, ReduceOp op, const std::vector<Array>& sources,
                           int divisor) {
  std::vector<Bits> result, inputs(sources.size());
  for (std::size_t i = 0; i < sources[0].count(); ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) inputs[s] = sources[s][i];
    result.push_back(i < kPeriod ? reference::reduce(dtype, op, inputs, divisor)
                                 : result[i - kPeriod]);
  }
  return result;
}

void expect_equal(const Array& actual, const std::vector<Bits>& wanted) {
  ASSERT_EQ(actual.count(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    ASSERT_TRUE(reference::same(actual.dtype(), actual[i], wanted[i]))
        << "element " << i << ": " << std::hex << actual[i] << ", expected " << wanted[i];
  EXPECT_TRUE(actual.guards_hold());
}

class ReduceTest : public ::testing::TestWithParam<std::tuple<Dtype, ReduceOp>> {
 protected:
  Dtype dtype() const { return std::get<0>(GetParam()); }
  ReduceOp op() const { return std::get<1>(GetParam()); }
  int divisor() const { return op() == ReduceOp::average ? 3 : 1; }

  // Every instruction set of this processor, into memory apart from the sources.
  void check_all(std::size_t source_count, std::size_t count, std::size_t offset) {
    const auto sources = random_sources(dtype(), source_count, count, offset);
    const auto wanted = expected(dtype(), op(), sources, divisor());
    for (const Table* table : supported_tables()) {
      SCOPED_TRACE(::testing::Message() << table->name << ", " << source_count << " sources of "
                                        << count << " elements at offset " << offset);
      Array out(dtype(), count, offset);
      table->reduce(dtype(), op(), out.data(), pointers(sources).data(), source_count, count,
                    divisor());
      expect_equal(out, wanted);
    }
  }
};

TEST_P(ReduceTest, AgreesWithReference) {
  for (const std::size_t sources : {1, 2, 3, 4, 5, 6, 9, 10, 14})
    for (const std::size_t count : {1, 3, 17, 64, 257})
      for (const std::size_t offset : {0, 1}) check_all(sources, count, offset);
}

TEST_P(ReduceTest, AgreesAcrossTiles) {
  for (const std::size_t sources : {2, 8}) check_all(sources, 20011, 1);
}

TEST_P(ReduceTest, DestinationMayBeAnySource) {
  constexpr std::size_t kCount = 9001;
  for (const std::size_t sources : {2, 4, 7}) {
    auto arrays = random_sources(dtype(), sources, kCount, 1);
    const auto wanted = expected(dtype(), op(), arrays, divisor());
    for (std::size_t target = 0; target < sources; ++target) {
      auto copies = arrays;
      reduce_many(dtype(), op(), copies[target].data(), pointers(copies), kCount, divisor());
      expect_equal(copies[target], wanted);
      for (std::size_t other = 0; other < sources; ++other) {
        if (other == target) continue;
        EXPECT_EQ(
            std::memcmp(copies[other].data(), arrays[other].data(), kCount * size_of(dtype())), 0)
            << "source " << other << " was written to";
      }
    }
  }
}

TEST_P(ReduceTest, DestinationsMayBeAllSources) {
  constexpr std::size_t kCount = 3001;
  for (const std::size_t sources : {1, 2, 4, 8, 9, 14}) {
    auto arrays = random_sources(dtype(), sources, kCount, 1);
    const auto wanted = expected(dtype(), op(), arrays, divisor());
    for (const Table* table : supported_tables()) {
      SCOPED_TRACE(::testing::Message() << table->name << ", " << sources << " sources");
      auto places = arrays;
      places.emplace_back(dtype(), kCount, 0);
      std::vector<void*> to;
      for (Array& place : places) to.push_back(place.data());
      const std::vector<const void*> from(to.begin(), to.end() - 1);
      table->reduce_to_all(dtype(), op(), to.data(), to.size(), from.data(), from.size(), kCount,
                           divisor());
      for (const Array& place : places) expect_equal(place, wanted);
    }
  }
}

// The same element gives the same bits in whatever piece it is reduced.
TEST_P(ReduceTest, PiecesEqualTheWhole) {
  constexpr std::size_t kCount = 10007;
  for (const std::size_t source_count : {3, 6}) {
    const auto sources = random_sources(dtype(), source_count, kCount, 0);
    Array whole(dtype(), kCount, 0), pieces(dtype(), kCount, 0);
    reduce_many(dtype(), op(), whole.data(), pointers(sources), kCount, divisor());
    std::mt19937 random(7);
    for (std::size_t begin = 0; begin < kCount;) {
      const std::size_t size = std::min<std::size_t>(random() % 700, kCount - begin);
      const std::size_t shift = begin * size_of(dtype());
      auto at = pointers(sources);
      for (const void*& source : at) source = static_cast<const std::byte*>(source) + shift;
      reduce_many(dtype(), op(), pieces.data() + shift, at, size, divisor());
      begin += size;
    }
    for (std::size_t i = 0; i < kCount; ++i)
      ASSERT_TRUE(reference::same(dtype(), whole[i], pieces[i])) << "element " << i;
  }
}

TEST_P(ReduceTest, TwoSourcesAsOneCall) {
  const auto sources = random_sources(dtype(), 2, 1003, 1);
  Array out(dtype(), 1003, 0);
  reduce(dtype(), op(), out.data(), sources[0].data(), sources[1].data(), 1003, divisor());
  expect_equal(out, expected(dtype(), op(), sources, divisor()));
}

TEST_P(ReduceTest, NothingIsFine) {
  reduce(dtype(), op(), nullptr, nullptr, nullptr, 0);
  divide(dtype(), nullptr, 0, 2);
}

INSTANTIATE_TEST_SUITE_P(All, ReduceTest,
                         ::testing::Combine(::testing::ValuesIn(reference::kDtypes),
                                            ::testing::ValuesIn(kOps)),
                         [](const auto& info) {
                           return test_name(std::get<0>(info.param), std::get<1>(info.param));
                         });

class DtypeTest : public ::testing::TestWithParam<Dtype> {};

TEST_P(DtypeTest, AMillionElements) {
  const auto sources = random_sources(GetParam(), 2, 1000003, 1);
  const auto wanted = expected(GetParam(), ReduceOp::sum, sources, 1);
  for (const Table* table : supported_tables()) {
    SCOPED_TRACE(table->name);
    Array out(GetParam(), 1000003, 3);
    table->reduce(GetParam(), ReduceOp::sum, out.data(), pointers(sources).data(), 2, 1000003, 1);
    expect_equal(out, wanted);
  }
}

TEST_P(DtypeTest, SpecialValuesAgainstEachOther) {
  const auto special = special_values(GetParam());
  std::vector<Array> sources(2, Array(GetParam(), special.size() * special.size(), 0));
  for (std::size_t i = 0; i < sources[0].count(); ++i) {
    sources[0].set(i, special[i / special.size()]);
    sources[1].set(i, special[i % special.size()]);
  }
  for (const ReduceOp op : kOps)
    for (const Table* table : supported_tables()) {
      SCOPED_TRACE(::testing::Message() << table->name << " " << name_of(op));
      Array out(GetParam(), sources[0].count(), 0);
      table->reduce(GetParam(), op, out.data(), pointers(sources).data(), 2, out.count(), 1);
      expect_equal(out, expected(GetParam(), op, sources, 1));
    }
}

TEST_P(DtypeTest, Divides) {
  for (const int divisor : {1, 2, 3, 7, 64, 1000, 2147483647})
    for (const std::size_t count : {1, 19, 4099}) {
      const auto input = random_sources(GetParam(), 1, count, 1);
      const auto wanted = expected(GetParam(), ReduceOp::average, input, divisor);
      for (const Table* table : supported_tables()) {
        SCOPED_TRACE(::testing::Message() << table->name << ", divisor " << divisor);
        Array data = input[0];
        table->divide(GetParam(), data.data(), count, divisor);
        expect_equal(data, wanted);
      }
      Array data = input[0];
      divide(GetParam(), data.data(), count, divisor);
      expect_equal(data, wanted);
    }
}

INSTANTIATE_TEST_SUITE_P(All, DtypeTest, ::testing::ValuesIn(reference::kDtypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// f16 holds integers to 2048: were every partial sum rounded to it, the ones would be lost.
TEST(Halves, RoundOnceAtTheEnd) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const long double large = dtype == Dtype::f16 ? 2048 : 256;
    for (const std::size_t ones : {2, 4, 8, 14}) {
      std::vector<Bits> sources(1 + ones, reference::encode_float(dtype, 1));
      sources[0] = reference::encode_float(dtype, large);
      std::vector<const void*> at;
      for (const Bits& source : sources) at.push_back(&source);
      Bits sum = 0;
      reduce_many(dtype, ReduceOp::sum, &sum, at, 1);
      EXPECT_EQ(reference::decode_float(dtype, sum), large + ones);
    }
  }
}

// The sum of these does not fit f16, their average does.
TEST(Halves, AverageDoesNotOverflowOnTheWay) {
  const Bits big = reference::encode_float(Dtype::f16, 60000);
  const std::vector<const void*> sources(8, &big);
  Bits average = 0;
  reduce_many(Dtype::f16, ReduceOp::average, &average, sources, 1, 8);
  EXPECT_EQ(average, big);
}

TEST(ReduceErrors, SayWhatIsWrong) {
  std::vector<float> a(8), b(8);
  const auto reduce_by = [&](ReduceOp op, int divisor) {
    reduce(Dtype::f32, op, a.data(), a.data(), b.data(), 8, divisor);
  };
  EXPECT_EQ(message_of<Error>([&] { reduce_by(ReduceOp::average, 0); }),
            "kernels: divisor 0 must be at least 1");
  EXPECT_EQ(message_of<Error>([&] { divide(Dtype::f32, a.data(), 8, -2); }),
            "kernels: divisor -2 must be at least 1");
  EXPECT_EQ(message_of<Error>([&] { reduce_by(ReduceOp::max, 2); }),
            "kernels: a max cannot be divided by 2: only sum and average can");
  EXPECT_EQ(message_of<Error>([&] { reduce_many(Dtype::f32, ReduceOp::sum, a.data(), {}, 8); }),
            "kernels: nothing to reduce: no sources");
}

TEST(ReduceErrors, RefusePartialOverlap) {
  std::vector<float> a(9), b(8);
  for (const auto& [dst, source] : {std::pair{a.data(), a.data() + 1}, {a.data() + 1, a.data()}})
    EXPECT_NE(message_of<Error>([&, dst = dst, source = source] {
                reduce(Dtype::f32, ReduceOp::sum, dst, source, b.data(), 8);
              }).find("overlaps the destination"),
              std::string::npos);
}

}  // namespace
}  // namespace asup::kernels
