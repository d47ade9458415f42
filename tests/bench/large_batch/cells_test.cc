#include "asup/bench/large_batch/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/thrown.h"

namespace asup::bench {
namespace {

using asup::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSamples = 60'000;

LargeBatchJob job_with(const std::vector<int>& batches, const std::vector<std::string>& ways) {
  LargeBatchJob job;
  job.batches = batches;
  job.ways = ways;
  return job;
}

std::vector<std::string> names(const std::vector<Cell>& cells) {
  std::vector<std::string> all;
  for (const Cell& cell : cells) all.push_back(cell.run.name);
  return all;
}

// A batch that grows has no cell of its own at the smallest.
TEST(Cells, AreOfEachWayAndBatch) {
  EXPECT_THAT(names(cells_of(job_with({2048, 128}, {"lars", "growing"}), kSamples)),
              ElementsAre("lars-128", "lars-2048", "growing-2048"));
  EXPECT_EQ(cells_of({}, kSamples).size(), 24u);
}

TEST(Cells, WarmUpForATenthAndFitMemory) {
  const auto cells = cells_of(job_with({128, 32768}, {"lamb"}), kSamples);
  // 10 epochs of 469 steps, and of 2.
  EXPECT_EQ(cells[0].training.flags, "--warmup 469");
  EXPECT_EQ(cells[1].training.flags, "--warmup 2 --accumulate 16");
  EXPECT_EQ(cells[1].training.batch, 32768);
  EXPECT_EQ(cells[1].training.epochs, 10);
  EXPECT_DOUBLE_EQ(cells[0].lr, 0.01);
  EXPECT_DOUBLE_EQ(cells[1].lr, 0.16);
}

TEST(Cells, LetUsersSpeakLast) {
  LargeBatchJob job = job_with({128}, {"lars"});
  job.training.flags = "--warmup 7";
  EXPECT_EQ(cells_of(job, kSamples)[0].training.flags, "--warmup 469 --warmup 7");
}

TEST(Cells, OfPlainSgdHaveTheRateOfTheSmallest) {
  const auto cells = cells_of(job_with({256, 1024}, {"sgd"}), kSamples);
  EXPECT_EQ(cells[0].scales, 0);
  EXPECT_EQ(cells[0].run.flags, "--optimizer sgd");
  EXPECT_EQ(cells[1].scales, 4);
  EXPECT_EQ(cells[1].lr, cells[0].lr);
  EXPECT_EQ(cells[1].run.flags, "--optimizer sgd --lr-scale linear --base-batch 256");
}

TEST(Cells, GrowFromTheSmallest) {
  const Cell cell = cells_of(job_with({128, 2048}, {"growing"}), kSamples).front();
  EXPECT_EQ(cell.batch, 2048);
  EXPECT_EQ(cell.training.batch, 128);
  EXPECT_THAT(cell.run.flags, HasSubstr("--schedule constant --batch-schedule 4@25%,4@62%"));
}

TEST(Cells, AreToldApartByAllThatCounts) {
  const auto cells = cells_of(job_with({128, 512}, {"sgd", "nesterov"}), kSamples);
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(cells[i].job(true), cells[j].job(true));
  EXPECT_NE(cells[0].job(true), cells[0].job(false));
  LargeBatchJob longer = job_with({128}, {"sgd"}), elsewhere = longer;
  longer.training.epochs = 20;
  elsewhere.training.folder = "elsewhere";
  EXPECT_NE(cells_of(longer, kSamples)[0].job(true), cells[0].job(true));
  EXPECT_EQ(cells_of(elsewhere, kSamples)[0].job(true), cells[0].job(true));
}

TEST(Growth, IsByFoursFromAQuarterOn) {
  EXPECT_EQ(growth(4), "4@25%");
  EXPECT_EQ(growth(8), "4@25%,2@62%");
  EXPECT_EQ(growth(64), "4@25%,4@50%,4@75%");
  EXPECT_EQ(growth(15), "3@25%,5@62%");
}

TEST(LargeBatchJob, RefusesWhatCannotBe) {
  const auto complaint = [](const LargeBatchJob& job) {
    return message_of<BadInput>([&] { job.check(); });
  };
  EXPECT_EQ(complaint({}), "");
  EXPECT_THAT(complaint(job_with({}, {})), HasSubstr("--batches: name one"));
  EXPECT_THAT(complaint(job_with({1}, {"lars"})), HasSubstr("--batches 1: a batch has a sample"));
  EXPECT_THAT(complaint(job_with({64, 64}, {})), HasSubstr("--batches: 64 is named twice"));
  EXPECT_THAT(complaint(job_with({64}, {"lras"})),
              HasSubstr("--ways lras: there is sgd, nesterov"));
  EXPECT_THAT(complaint(job_with({64}, {"sgd", "sgd"})), HasSubstr("--ways: sgd is named twice"));
  EXPECT_THAT(complaint(job_with({64}, {"growing"})), HasSubstr("needs a batch to grow to"));
  EXPECT_THAT(complaint(job_with({64, 100}, {})), HasSubstr("--batches 100: a batch that grows"));
  EXPECT_EQ(complaint(job_with({64, 100}, {"sgd"})), "");
  for (const char* flags : {"--lr 1", "--batch=3", "--weight-decay 0 --optimizer sgd"}) {
    LargeBatchJob job;
    job.training.flags = flags;
    EXPECT_THAT(complaint(job), HasSubstr("is for the benchmark to say")) << flags;
  }
  EXPECT_THAT(message_of<BadInput>([] {
                cells_of(job_with({128, 512}, {}), 500);
              }),
              AllOf(HasSubstr("--batches 512: fashion-mnist has 500 training samples"),
                    Not(HasSubstr("128"))));
}

}  // namespace
}  // namespace asup::bench
