// All-reduce of numbers that travel in a code, over every kind of link.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/collective/communication.h"

namespace asup::collective {
namespace {

using kernels::Code;

constexpr Code kCodes[] = {Code::bf16, Code::f16, Code::int8, Code::int4, Code::onebit};

class Coded : public testing::CommunicationTest {};

// About normal, of deviation 1: the sum of four spreads.
float drawn(int rank, std::size_t i) {
  std::uint64_t bits = (i * 64 + static_cast<std::size_t>(rank) + 1) * 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 29) * 0xbf58476d1ce4e5b9;
  bits ^= bits >> 32;
  const auto sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<float>(sum) * 0x1p-16f - 2) * 1.7320508f;
}

float mean_of(int ranks, std::size_t i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += drawn(rank, i);
  return static_cast<float>(sum / ranks);
}

// Of a number of a block whose largest is below 5.
double most_lost(Code code) {
  switch (code) {
    case Code::bf16:
      return 5 * 0x1p-7;
    case Code::f16:
      return 5 * 0x1p-10;
    case Code::int8:
      return 2 * 5.0 / 127;
    case Code::int4:
      return 2 * 5.0 / 7;
    default:
      return 10;
  }
}

TEST_P(Coded, AllGetTheSameBitsAndAboutTheAverage) {
  for (const Code code : kCodes)
    for (const std::size_t count : {0ul, 1ul, 1000ul, 1024ul, 5000ul, 40'001ul}) {
      SCOPED_TRACE(fmt::format("{} of {}", kernels::name_of(code), count));
      std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks()));
      run_ranks([&](Job& job) {
        auto communicator = make_communicator(job);
        auto data = numbers<float>(*communicator, count);
        for (std::size_t i = 0; i < count; ++i) data.values[i] = drawn(job.rank(), i);
        communicator->start_all_reduce(data.buffer(), ReduceOp::average, {.code = code, .noise = 7})
            .wait()
            .or_throw();
        results[static_cast<std::size_t>(job.rank())].assign(data.values.begin(),
                                                             data.values.end());
      });
      for (const auto& result : results) ASSERT_EQ(result, results[0]);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_NEAR(results[0][i], mean_of(ranks(), i), ranks() == 1 ? 1e-6 : most_lost(code));
    }
}

// What comes out in many calls is, but for what is still carried, what went in.
TEST_P(Coded, NothingIsLostForGoodWithFeedback) {
  constexpr std::size_t kCount = 5000;
  constexpr int kCalls = 60;
  for (const Code code : kCodes)
    run_ranks([&](Job& job) {
      auto communicator = make_communicator(job);
      auto data = numbers<float>(*communicator, kCount);
      std::vector<float> carried(kCount), lost(kCount);
      std::vector<double> sum(kCount);
      for (int call = 0; call < kCalls; ++call) {
        for (std::size_t i = 0; i < kCount; ++i) data.values[i] = drawn(job.rank(), i);
        communicator
            ->start_all_reduce(data.buffer(), ReduceOp::average,
                               {.code = code, .carried = carried.data(), .lost = lost.data()})
            .wait()
            .or_throw();
        std::swap(carried, lost);
        for (std::size_t i = 0; i < kCount; ++i) sum[i] += static_cast<double>(data.values[i]);
      }
      std::vector<float> left = carried;
      communicator->all_reduce(buffer_of(std::span(left)), ReduceOp::average).or_throw();
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_NEAR(sum[i] + static_cast<double>(left[i]), kCalls * mean_of(job.size(), i), 2e-3)
            << kernels::name_of(code) << " at " << i;
      const float largest = std::abs(*std::max_element(
          left.begin(), left.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
      EXPECT_LT(largest, code == Code::onebit ? 2 * kCalls : 1)
          << kernels::name_of(code) << ": it adds up";
    });
}

TEST_P(Coded, FewerBytesAreSent) {
  constexpr std::size_t kCount = 64 * 1024;
  if (ranks() == 1) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, kCount);
    const auto bytes_of = [&](Coding coding, const std::string& algorithm) {
      const auto before = communicator->bytes_moved();
      Call call;
      call.input = call.output = data.buffer();
      call.algorithm = algorithm;
      call.coding = coding;
      communicator->run(call).or_throw();
      return static_cast<double>(communicator->bytes_moved() - before);
    };
    const double plain = bytes_of({}, "owners");
    EXPECT_NEAR(plain / bytes_of({.code = Code::bf16}, ""), 2, 0.01);
    EXPECT_NEAR(plain / bytes_of({.code = Code::int8}, ""), 3.98, 0.01);
    EXPECT_NEAR(plain / bytes_of({.code = Code::int4}, ""), 7.94, 0.01);
    EXPECT_NEAR(plain / bytes_of({.code = Code::onebit}, ""), 31, 0.1);
  });
}

TEST_P(Coded, OneRanksNaNIsEverybodys) {
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    for (const Code code : kCodes) {
      auto data = numbers<float>(*communicator, 3000);
      for (float& value : data.values) value = 1;
      if (job.rank() == job.size() - 1) data.values[1500] = NAN;
      communicator->start_all_reduce(data.buffer(), ReduceOp::average, {.code = code})
          .wait()
          .or_throw();
      EXPECT_TRUE(std::isnan(data.values[1500])) << kernels::name_of(code);
      EXPECT_TRUE(std::isfinite(data.values[500])) << kernels::name_of(code);
    }
  });
}

TEST_P(Coded, OtherCodesAreOtherCalls) {
  if (ranks() != 2) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<float>(*communicator, 3000);
    const Code code = job.rank() == 0 ? Code::int8 : Code::bf16;
    const Outcome outcome =
        communicator->start_all_reduce(data.buffer(), ReduceOp::sum, {.code = code}).wait();
    EXPECT_FALSE(outcome.ok());
    EXPECT_THAT(outcome.message(), ::testing::HasSubstr("bf16"));
    EXPECT_THAT(outcome.message(), ::testing::HasSubstr("int8"));
  });
}

TEST_P(Coded, WhatHasNoCodeIsRefused) {
  if (ranks() != 1) return;
  run_ranks([&](Job& job) {
    auto communicator = make_communicator(job);
    auto data = numbers<double>(*communicator, 10);
    const auto refusal = [&](Call call) {
      try {
        (void)communicator->run(std::move(call));
      } catch (const BadInput& error) {
        return std::string(error.what());
      }
      return std::string("none");
    };
    Call call;
    call.input = call.output = data.buffer();
    call.coding.code = Code::int8;
    EXPECT_THAT(refusal(call), ::testing::HasSubstr("f32"));
    auto floats = numbers<float>(*communicator, 10);
    call.input = call.output = floats.buffer();
    call.op = ReduceOp::max;
    EXPECT_THAT(refusal(call), ::testing::HasSubstr("only sums and averages"));
    call.op = ReduceOp::sum;
    call.coding.lost = floats.values.data();
    EXPECT_THAT(refusal(call), ::testing::HasSubstr("both kept and carried"));
    call.coding = {.code = Code::int8};
    call.algorithm = "ring";
    EXPECT_THAT(refusal(call), ::testing::HasSubstr("'ring' cannot carry"));
  });
}

INSTANTIATE_TEST_SUITE_P(Links, Coded, ::testing::ValuesIn(testing::every_connection()),
                         testing::name_of_connection);

}  // namespace
}  // namespace asup::collective
