#include "asup/train/loop/leased_samples.h"

#include <gtest/gtest.h>

#include "asup/sync/server/parameter_server.h"

namespace asup::train {
namespace {

// Sample i is the number i. Counts how often it is read.
class Numbers : public data::Dataset {
 public:
  std::size_t size() const override { return 100; }
  std::vector<std::int64_t> input_shape() const override { return {1, 1, 1}; }
  int classes() const override { return 1; }
  std::string name() const override { return "numbers"; }

  mutable int reads = 0;

 private:
  data::Batch assemble(std::span<const std::int64_t> indices, std::uint64_t) const override {
    ++reads;
    const auto count = static_cast<std::int64_t>(indices.size());
    data::Batch batch{torch::empty({count, 1, 1, 1}), torch::zeros({count}, torch::kInt64)};
    std::copy(indices.begin(), indices.end(), batch.input.mutable_data_ptr<float>());
    return batch;
  }
};

// 100 samples in batches of 12 are 9 steps.
struct Leases {
  explicit Leases(Merge merge) : config(config_of(merge)) {}
  static TrainConfig config_of(Merge merge) {
    TrainConfig config;
    config.batch = 12;
    config.workers = 2;
    config.strategy = ParameterServer{.merge = merge, .every = merge == Merge::none ? 4 : 3};
    return config;
  }

  const TrainConfig config;
  const RunLength length{18, 9};
  Numbers numbers;
  data::ShardedBatches batches{100, 0, 0, 2, 12, data::Remainder::keep};
  LeasedSamples samples{config, length, numbers, batches};
};

ps::Release lease_of(std::uint64_t step, std::uint64_t begin, std::uint64_t end) {
  ps::Release lease;
  lease.step = step;
  lease.begin = begin;
  lease.end = end;
  return lease;
}

TEST(LeasedSamples, ALeaseIsOnePart) {
  const Leases leases(Merge::none);
  EXPECT_EQ(leases.samples.part_at(lease_of(10, 2, 12), 2), (LeasedSamples::Part{10, {2, 12}}));
}

// Rounds of 3 steps of 12 samples; a worker's part of a step is 6.
TEST(LeasedSamples, ALeaseOfARoundIsCutIntoPartsOfSteps) {
  const Leases leases(Merge::mean);
  const ps::Release lease = lease_of(4, 10, 28);  // the second epoch's second round
  std::vector<LeasedSamples::Part> parts;
  for (std::uint64_t at = lease.begin; at < lease.end; at += parts.back().samples.size())
    parts.push_back(leases.samples.part_at(lease, at));
  EXPECT_EQ(parts, (std::vector<LeasedSamples::Part>{
                       {12, {10, 12}}, {13, {0, 6}}, {13, {6, 12}}, {14, {0, 4}}}));
}

// Wherever a lease of a round begins and ends: BatchNorm has no statistics of one sample.
TEST(LeasedSamples, NoPartIsOfOneSampleAlone) {
  Leases leases(Merge::mean);
  for (std::uint64_t begin = 0; begin < 36; ++begin)
    for (std::uint64_t end = begin + 2; end <= 36; ++end) {
      const ps::Release lease = lease_of(1, begin, end);
      std::vector<std::int64_t> read;
      for (std::uint64_t at = begin; at < end;) {
        const LeasedSamples::Part part = leases.samples.part_at(lease, at);
        EXPECT_GE(part.samples.size(), 2u) << at << " of " << begin << " to " << end;
        EXPECT_LE(part.samples.size(), 8u);
        const auto batch = leases.samples.take(part);
        for (std::int64_t i = 0; i < batch.input.size(0); ++i)
          read.push_back(static_cast<std::int64_t>(batch.input[i].item<float>()));
        at += part.samples.size();
      }
      std::vector<std::int64_t> wanted;
      for (std::uint64_t at = begin; at < end; ++at)
        wanted.push_back(leases.batches.indices(0, 3 + at / 12, {at % 12, at % 12 + 1})[0]);
      ASSERT_EQ(read, wanted) << begin << " to " << end;
    }
}

TEST(LeasedSamples, WhatWasPreparedIsNotReadAgain) {
  Leases leases(Merge::none);
  const ps::Release lease = lease_of(3, 0, 6);
  const auto part = leases.samples.part_at(lease, 0);
  leases.samples.prepare(lease);
  EXPECT_EQ(leases.numbers.reads, 1);
  const data::Batch batch = leases.samples.take(part);
  EXPECT_EQ(leases.numbers.reads, 1);
  const auto indices = leases.batches.indices(0, 3, part.samples);
  EXPECT_EQ(batch.input.size(0), 6);
  EXPECT_EQ(batch.input[5].item<float>(), static_cast<float>(indices[5]));
  leases.samples.take(part);
  EXPECT_EQ(leases.numbers.reads, 2) << "it is given once";
  leases.samples.prepare(lease);
  leases.samples.take({3, {6, 12}});
  EXPECT_EQ(leases.numbers.reads, 4) << "another one was prepared";
  ps::Release sync_point = lease;
  sync_point.next = ps::Release::Next::sync_point;
  leases.samples.prepare(sync_point);
  EXPECT_EQ(leases.numbers.reads, 4);
}

}  // namespace
}  // namespace asup::train
