#include "asup/ps/table/shard.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "asup/base/error.h"
#include "asup/ps/table/distinct_rows.h"
#include "tests/kernels/reference_update.h"
#include "tests/support/thrown.h"

namespace asup::ps::table {
namespace {

using asup::testing::message_of;
using kernels::Rule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

TableSetup setup_of(std::uint64_t rows, std::uint32_t width, Rule rule = {}) {
  return {.name = "items", .rows = rows, .width = width, .rule = rule, .seed = 7};
}

Chunk chunk_of(const std::vector<std::uint64_t>& rows, const Floats& gradient) {
  Chunk chunk;
  chunk.count = rows.size();
  chunk.bytes.resize(rows.size() * sizeof(std::uint64_t) + gradient.size() * sizeof(float));
  std::memcpy(chunk.bytes.data(), rows.data(), rows.size() * sizeof(std::uint64_t));
  std::memcpy(chunk.bytes.data() + rows.size() * sizeof(std::uint64_t), gradient.data(),
              gradient.size() * sizeof(float));
  return chunk;
}

Floats read(const Shard& shard, const std::vector<std::uint64_t>& rows) {
  Floats found(rows.size() * shard.setup().width);
  shard.read(rows, found.data());
  return found;
}

// Rows of one server of three, touched at random, against the rule in doubles of those rows alone.
TEST(TableShard, TouchedRowsGoByTheRuleAndOthersStay) {
  constexpr std::uint64_t kRows = 3000;
  constexpr std::size_t kWidth = 5;
  for (const Rule& rule :
       {Rule{}, Rule{.kind = Rule::Kind::adagrad, .eps = 1e-10}, Rule{.kind = Rule::Kind::adam}}) {
    SCOPED_TRACE(kernels::describe(rule));
    const TableSetup setup = setup_of(kRows, kWidth, rule);
    Shard shard(setup, /*server=*/1, /*servers=*/3);
    std::map<std::uint64_t, std::vector<kernels::reference::Parameter>> expected;
    std::mt19937_64 random(3);
    std::uniform_real_distribution<float> number(-1, 1);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      Rule of_step = rule;  // SparseAdam's eps comes before the correction
      if (rule.kind == Rule::Kind::adam)
        of_step.eps /= std::sqrt(1 - std::pow(rule.beta2, static_cast<double>(step)));
      std::vector<std::uint64_t> rows;
      Floats gradient;
      for (std::uint64_t row = 1; row < kRows; row += 3) {
        if (random() % 3 != 0) continue;
        rows.push_back(row);
        if (!expected.contains(row)) {
          Floats initial(kWidth);
          initial_row(setup, row, initial.data());
          for (const float w : initial) expected[row].push_back({.w = w});
        }
        for (auto& parameter : expected[row]) {
          gradient.push_back(number(random));
          kernels::reference::update(of_step, {.lr = 0.1, .updates = step}, parameter,
                                     gradient.back());
        }
      }
      const Chunk chunk = chunk_of(rows, gradient);
      const Shard::Source source{{&chunk, 1}, 1, 0.1};
      shard.update({&source, 1}, 1);
    }
    EXPECT_EQ(shard.rows_kept(), expected.size());
    for (std::uint64_t row = 1; row < kRows; row += 3) {
      const Floats found = read(shard, {row});
      Floats initial(kWidth);
      initial_row(setup, row, initial.data());
      if (!expected.contains(row)) {
        ASSERT_EQ(found, initial);
        continue;
      }
      for (std::size_t column = 0; column < kWidth; ++column)
        ASSERT_NEAR(found[column], expected[row][column].w, 2e-6) << row;
    }
    EXPECT_EQ(shard.rows_kept(), expected.size()) << "reading keeps nothing";
  }
}

TEST(TableShard, SourcesAreAddedUpByTheirWeightsAndARowThatOneLacksIsZeroThere) {
  Shard shard(setup_of(10, 1), 0, 1);
  const Floats before = read(shard, {2, 4, 6});
  const Chunk a[] = {chunk_of({2}, {1}), chunk_of({4}, {1})};
  const Chunk b[] = {chunk_of({4, 6}, {2, 2})};
  const Shard::Source sources[] = {{a, 0.25, 1}, {b, 0.75, 1}};
  shard.update(sources, 1);
  const Floats after = read(shard, {2, 4, 6});
  EXPECT_FLOAT_EQ(after[0], before[0] - 0.25f);
  EXPECT_FLOAT_EQ(after[1], before[1] - 1.75f);
  EXPECT_FLOAT_EQ(after[2], before[2] - 1.5f);
  EXPECT_EQ(shard.rows_kept(), 3u);
}

TEST(TableShard, WhereLearningRatesDifferEachCountsByItsOwn) {
  Shard shard(setup_of(10, 1), 0, 1);
  const Floats before = read(shard, {3});
  const Chunk a = chunk_of({3}, {1}), b = chunk_of({3}, {1});
  const Shard::Source sources[] = {{{&a, 1}, 0.5, 0.1}, {{&b, 1}, 0.5, 0.3}};
  shard.update(sources, 1);
  EXPECT_NEAR(read(shard, {3})[0], before[0] - 0.2, 1e-6);
}

TEST(TableShard, RowsBeginByNameSeedRowAndColumnWhateverTheServers) {
  TableSetup setup = setup_of(100, 4);
  const Floats one = read(Shard(setup, 0, 1), {40, 41, 42});
  EXPECT_EQ(Floats(one.begin(), one.begin() + 4), read(Shard(setup, 0, 2), {40}));
  EXPECT_EQ(Floats(one.begin() + 4, one.begin() + 8), read(Shard(setup, 1, 2), {41}));
  for (const float number : one) EXPECT_LE(std::abs(number), 0.01f);
  EXPECT_NE(read(Shard(setup, 0, 1), {40}), read(Shard(setup, 0, 1), {41}));
  setup.seed = 8;
  EXPECT_NE(read(Shard(setup, 0, 1), {40}), read(Shard(setup_of(100, 4), 0, 1), {40}));
  setup.seed = 7;
  setup.name = "users";
  EXPECT_NE(read(Shard(setup, 0, 1), {40}), read(Shard(setup_of(100, 4), 0, 1), {40}));
}

TEST(TableShard, KnowsWhichRowsAreItsOwn) {
  const Shard shard(setup_of(10, 1), 1, 3);
  EXPECT_EQ(shard.rows(), 3u);  // 1, 4, 7
  using Rows = std::vector<std::uint64_t>;
  EXPECT_TRUE(shard.has(Rows{1, 4, 7}));
  EXPECT_TRUE(shard.has(Rows{}));
  for (const Rows& rows : {Rows{0}, Rows{10}, Rows{13}, Rows{4, 1}, Rows{4, 4}, Rows{~0ull}})
    EXPECT_FALSE(shard.has(rows)) << rows.front();
}

TEST(TableShard, RecordsGoToAnotherShardAndThoseAsTheyBeganTakeNoMemory) {
  const TableSetup setup = setup_of(200, 3, {.kind = Rule::Kind::adam});
  Shard shard(setup, 0, 1), other(setup, 0, 1);
  const Chunk chunk = chunk_of({5, 150}, {1, 2, 3, 4, 5, 6});
  const Shard::Source source{{&chunk, 1}, 1, 0.1};
  shard.update({&source, 1}, 1);
  Floats records(200 * record_floats(setup)), found(records.size());
  shard.read_records({0, 200}, records.data());
  other.write_records({0, 200}, records.data());
  other.set_steps(shard.steps());
  EXPECT_EQ(other.rows_kept(), 2u);
  shard.update({&source, 1}, 1);
  other.update({&source, 1}, 1);
  shard.read_records({0, 200}, records.data());
  other.read_records({0, 200}, found.data());
  EXPECT_EQ(found, records);
  EXPECT_EQ(other.steps(), 2);
}

// Two terabytes of rows, and a bit for each of them.
TEST(TableShard, OfMoreRowsThanThereIsMemoryForTakesThatOfThoseThatAreTouched) {
  const std::uint64_t rows = std::uint64_t{1} << 39, last = rows - 1;
  const Shard shard(setup_of(rows, 1), 0, 1);
  float value = 7, initial = 8;
  shard.read({&last, 1}, &value);
  initial_row(shard.setup(), last, &initial);
  EXPECT_EQ(value, initial);
  EXPECT_EQ(shard.rows_kept(), 0u);
}

TEST(TableSetup, IsReadAsItIsWritten) {
  TableSetup setup = setup_of(10'000'000, 16, {.kind = Rule::Kind::adagrad, .eps = 1e-10});
  setup.synchronous = false;
  EXPECT_EQ(parse_setup(to_text(setup)), setup);
  EXPECT_THROW(parse_setup("{}"), BadInput);
  EXPECT_THROW(parse_setup("nonsense"), BadInput);
}

TEST(TableSetup, DifferencesAreNamed) {
  EXPECT_EQ(difference(setup_of(10, 4), setup_of(10, 4)), "");
  EXPECT_EQ(difference(setup_of(10, 4), setup_of(10, 8)),
            "table items has width 4 there and 8 here");
}

TEST(TableSetup, WhatCannotBeIsRefused) {
  const auto refusal = [](const TableSetup& setup) {
    return message_of<BadInput>([&] { require_sense(setup); });
  };
  EXPECT_EQ(refusal(setup_of(10, 4)), "");
  EXPECT_THAT(refusal(setup_of(0, 4)), HasSubstr("no rows"));
  EXPECT_THAT(refusal(setup_of(10, 0)), HasSubstr("rows of 0 numbers"));
  EXPECT_THAT(refusal(setup_of(~0ull, 4)), HasSubstr("more than servers can address"));
  EXPECT_THAT(refusal(setup_of(10, 4, {.kind = Rule::Kind::momentum, .momentum = 0.9})),
              HasSubstr("not by momentum"));
  EXPECT_THAT(refusal(setup_of(10, 4, {.weight_decay = 0.1})), HasSubstr("no weight decay"));
  TableSetup setup = setup_of(10, 4);
  setup.name = "../items";
  EXPECT_THAT(refusal(setup), HasSubstr("no name of a table"));
}

TEST(DistinctRows, AreEachOnceByServerAndAscending) {
  const std::int64_t ids[] = {7, 2, 7, 9, 0, 2, 2};
  const DistinctRows found = distinct_rows(ids, 10, 3);
  EXPECT_THAT(found.rows, ElementsAre(0, 9, 7, 2));
  EXPECT_THAT(found.begins, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(found.places, ElementsAre(2, 3, 2, 1, 0, 3, 3));
}

TEST(DistinctRows, OfManyIdsAndOfNone) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> ids(20'000);
  for (auto& id : ids) id = static_cast<std::int64_t>(random() % 50'000'000'000);
  const DistinctRows found = distinct_rows(ids, 50'000'000'000, 4);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ASSERT_EQ(found.rows[static_cast<std::size_t>(found.places[i])],
              static_cast<std::uint64_t>(ids[i]));
  for (std::size_t server = 0; server < 4; ++server)
    for (std::size_t i = found.begins[server]; i < found.begins[server + 1]; ++i) {
      ASSERT_EQ(found.rows[i] % 4, server);
      ASSERT_TRUE(i == found.begins[server] || found.rows[i - 1] < found.rows[i]);
    }
  EXPECT_THAT(distinct_rows({}, 10, 2).begins, ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace asup::ps::table
