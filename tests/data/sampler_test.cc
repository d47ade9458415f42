#include "asup/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "asup/net/transport/inproc/wire.h"
#include "tests/data/files.h"

namespace asup {
namespace {

using data::GlobalOrder;
using data::message_of;
using data::Remainder;
using ::testing::HasSubstr;
using Indices = std::vector<std::size_t>;

std::vector<Indices> epoch_of(Sampler& sampler, std::size_t batch) {
  std::vector<Indices> batches;
  sampler.reset();
  while (auto indices = sampler.next(batch)) batches.push_back(*indices);
  return batches;
}

Indices global_order(std::size_t size, std::uint64_t seed, std::uint64_t epoch) {
  const auto order = GlobalOrder(size, seed).order(epoch);
  return {order.begin(), order.end()};
}

// What was saved to the stream, which may be read again.
void load_from(const std::stringstream& saved, Sampler& sampler) {
  std::stringstream copy(saved.str());
  torch::serialize::InputArchive archive;
  archive.load_from(copy);
  sampler.load(archive);
}

TEST(Sampler, RanksShareEachGlobalBatch) {
  Sampler first(0, 2, 20, {.seed = 3}), second(1, 2, 20, {.seed = 3});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    const auto a = epoch_of(first, 5), b = epoch_of(second, 5);
    ASSERT_EQ(a.size(), 2u);
    ASSERT_EQ(b.size(), 2u);
    Indices all;
    for (std::size_t i = 0; i < 2; ++i) {
      all.insert(all.end(), a[i].begin(), a[i].end());
      all.insert(all.end(), b[i].begin(), b[i].end());
    }
    EXPECT_EQ(all, global_order(20, 3, epoch));
    EXPECT_EQ(first.epoch(), epoch);
  }
}

TEST(Sampler, ReshufflesUnlessToldNotTo) {
  Sampler shuffled(0, 1, 50), plain(0, 1, 50, {.shuffle = false});
  EXPECT_NE(epoch_of(shuffled, 50), epoch_of(shuffled, 50));
  const auto epoch = epoch_of(plain, 50);
  EXPECT_EQ(epoch, epoch_of(plain, 50));
  EXPECT_TRUE(std::is_sorted(epoch[0].begin(), epoch[0].end()));
}

// 11 samples, 3 ranks, batches of 2: one full global batch and 5 samples over.
TEST(Sampler, AllRanksGetAsManyBatches) {
  const auto sizes = [](int rank, Remainder remainder) {
    Sampler sampler(rank, 3, 11, {.remainder = remainder});
    std::vector<std::size_t> sizes;
    for (const auto& batch : epoch_of(sampler, 2)) sizes.push_back(batch.size());
    return sizes;
  };
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(sizes(rank, Remainder::drop), (Indices{2}));
    EXPECT_EQ(sizes(rank, Remainder::pad), (Indices{2, 2}));
    EXPECT_EQ(sizes(rank, Remainder::keep), (Indices{2, rank < 2 ? 2u : 1u}));
  }
}

TEST(Sampler, PadWrapsAround) {
  Sampler sampler(2, 3, 11, {.seed = 3});
  const auto order = global_order(11, 3, 0);
  EXPECT_EQ(epoch_of(sampler, 2)[1], (Indices{order[10], order[0]}));
}

// A loader cannot make a batch of nothing.
TEST(Sampler, KeepGivesEveryRankASample) {
  for (int rank = 0; rank < 3; ++rank) {
    Sampler sampler(rank, 3, 7, {.seed = 3, .remainder = Remainder::keep});
    const auto batches = epoch_of(sampler, 2);
    ASSERT_EQ(batches.size(), 2u);
    const auto order = global_order(7, 3, 0);
    EXPECT_EQ(batches[1], (Indices{order[(6 + static_cast<std::size_t>(rank)) % 7]}));
  }
}

TEST(Sampler, DropRefusesToLeaveEverythingOut) {
  Sampler sampler(0, 4, 10, {.remainder = Remainder::drop});
  EXPECT_THAT(message_of([&] { sampler.next(3); }), HasSubstr("the 10 samples there are"));
}

TEST(Sampler, RefusesNoSamplesAndNoRank) {
  EXPECT_THAT(message_of([] { Sampler(0, 1, 0); }), HasSubstr("no samples"));
  EXPECT_THROW(Sampler(2, 2, 10), Error);
  Sampler sampler(0, 1, 10);
  EXPECT_THAT(message_of([&] { sampler.reset(0); }), HasSubstr("no samples"));
}

TEST(Sampler, TakesANewSize) {
  Sampler sampler(0, 1, 10, {.seed = 3, .remainder = Remainder::keep});
  epoch_of(sampler, 10);
  sampler.reset(4);
  EXPECT_EQ(*sampler.next(10), global_order(4, 3, 1));
}

TEST(Sampler, BeginsAnyEpoch) {
  Sampler sampler(0, 1, 10, {.seed = 3});
  epoch_of(sampler, 10);
  sampler.set_epoch(6);
  EXPECT_EQ(epoch_of(sampler, 10)[0], global_order(10, 3, 6));
  EXPECT_EQ(epoch_of(sampler, 10)[0], global_order(10, 3, 7));
}

TEST(Sampler, GoesOnWhereItWasSaved) {
  Sampler original(1, 2, 40, {.seed = 8});
  epoch_of(original, 4);
  original.reset();
  original.next(4);
  original.next(4);
  std::stringstream stream;
  {
    torch::serialize::OutputArchive archive;
    original.save(archive);
    archive.save_to(stream);
  }
  const auto load = [&](Sampler& sampler) { load_from(stream, sampler); };

  Sampler resumed(1, 2, 40, {.seed = 8});
  load(resumed);
  resumed.reset();  // as a data loader does when it begins
  EXPECT_EQ(resumed.epoch(), 1u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(resumed.next(4), original.next(4)) << i;
  EXPECT_EQ(epoch_of(resumed, 4), epoch_of(original, 4));

  Sampler other_seed(1, 2, 40, {.seed = 9}), other_size(1, 2, 41, {.seed = 8}),
      other_ranks(1, 3, 40, {.seed = 8});
  EXPECT_THAT(message_of([&] { load(other_seed); }), HasSubstr("seed was 8, this one's is 9"));
  EXPECT_THAT(message_of([&] { load(other_size); }), HasSubstr("size was 40"));
  EXPECT_THAT(message_of([&] { load(other_ranks); }), HasSubstr("ranks was 2"));
}

// Sample i is the number i.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  torch::data::Example<> get(std::size_t index) override {
    return {torch::tensor(static_cast<std::int64_t>(index)), torch::tensor(0)};
  }
  std::optional<std::size_t> size() const override { return 103; }
};

// Sixty samples of two classes, a sixth of them of the second: each batch has its part of both.
TEST(Sampler, WithLabelsEveryBatchHasOfEachClass) {
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 60; ++i) labels.push_back(i < 50 ? 0 : 1);
  std::set<std::size_t> seen;
  for (int rank = 0; rank < 2; ++rank) {
    Sampler sampler(rank, 2, 60, {.seed = 5, .labels = labels});
    sampler.reset();
    while (const auto batch = sampler.next(6)) {
      EXPECT_EQ(std::ranges::count_if(*batch, [&](std::size_t i) { return labels[i] == 1; }), 1);
      seen.insert(batch->begin(), batch->end());
    }
  }
  EXPECT_EQ(seen.size(), 60u);
}

// Of a version that knew no labels there are none in the file.
TEST(Sampler, SavedWithoutLabelsGoesOnWhereThereAreNone) {
  std::stringstream stream;
  {
    torch::serialize::OutputArchive archive;
    const auto write = [&](const char* key, std::int64_t value) {
      archive.write(key, torch::tensor(value), /*is_buffer=*/true);
    };
    write("size", 4);
    write("seed", 8);
    write("ranks", 1);
    write("epoch", 2);
    write("position", 1);
    archive.save_to(stream);
  }
  const auto load = [&](Sampler& sampler) { load_from(stream, sampler); };
  Sampler plain(0, 1, 4, {.seed = 8});
  load(plain);
  EXPECT_EQ(plain.epoch(), 2u);
  const Indices order = global_order(4, 8, 2);
  EXPECT_EQ(*plain.next(3), Indices(order.begin() + 1, order.end()));
  Sampler stratified(0, 1, 4, {.seed = 8, .labels = {0, 1, 0, 1}});
  EXPECT_THAT(message_of([&] { load(stratified); }), HasSubstr("had 0 labels, this one has 4"));
}

TEST(Sampler, FeedsTorchsDataLoader) {
  for (const std::size_t workers : {0u, 2u}) {
    std::vector<std::multiset<std::int64_t>> epochs(2);
    for (int rank = 0; rank < 2; ++rank) {
      auto loader =
          torch::data::make_data_loader(Numbers().map(torch::data::transforms::Stack<>()),
                                        Sampler(rank, 2, 103, {.remainder = Remainder::keep}),
                                        torch::data::DataLoaderOptions(8).workers(workers));
      for (auto& seen : epochs) {
        int batches = 0;
        for (auto& batch : *loader) {
          ++batches;
          const auto* begin = batch.data.const_data_ptr<std::int64_t>();
          seen.insert(begin, begin + batch.data.numel());
        }
        EXPECT_EQ(batches, 7);
      }
    }
    for (const auto& seen : epochs) {
      EXPECT_EQ(seen.size(), 103u);
      EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 103u);
    }
  }
}

TEST(Sampler, TakesItsPlaceFromTheJob) {
  net::InprocHub hub;
  std::vector<std::thread> ranks;
  std::vector<std::vector<Indices>> seen(2);
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      net::JoinOptions options;
      options.rank = rank;
      options.size = 2;
      options.links = net::LinkKind::inproc;
      options.hub = &hub;
      const Job job = Job::join(options);
      Sampler sampler(job, 30);
      seen[static_cast<std::size_t>(rank)] = epoch_of(sampler, 7);
    });
  for (auto& rank : ranks) rank.join();
  for (int rank = 0; rank < 2; ++rank) {
    Sampler sampler(rank, 2, 30);
    EXPECT_EQ(seen[static_cast<std::size_t>(rank)], epoch_of(sampler, 7));
  }
}

}  // namespace
}  // namespace asup
