#include "asup/report/read_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/report/metrics_file.h"
#include "asup/report/run_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::report {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

// The folder of a run that has begun.
class ReadRun : public ::testing::Test {
 protected:
  ReadRun() {
    folder.create();
    write_atomically(folder.config_file(), "format = 2\n");
    RunFacts facts;
    facts.model = "cnn";
    facts.steps = 40;
    facts.hosts = {"here", "there"};
    write_atomically(folder.facts_file(), to_json(facts).dump());
  }

  static StepRecord row(std::int64_t step, double loss) {
    StepRecord row;
    row.step = step;
    row.loss = loss;
    row.samples = 8;
    row.step_seconds = 2;
    row.comm_s = 0.5;
    row.seconds = static_cast<double>(step);
    return row;
  }

  const TemporaryFolder place;
  const RunFolder folder{place.file("run")};
};

TEST_F(ReadRun, BeforeTheFirstRowFiguresAreUnknown) {
  const FoundRun run = read_run(folder.path());
  EXPECT_EQ(run.status, RunStatus::killed);
  EXPECT_EQ(run.summary.step, 0);
  EXPECT_TRUE(std::isnan(run.summary.final_loss));
  EXPECT_FALSE(run.summary.test);
  EXPECT_EQ(run.summary.facts.hosts, (std::vector<std::string>{"here", "there"}));
  EXPECT_EQ(describe_end(run), "killed after step 0 of 40");
}

TEST_F(ReadRun, WhatServersLastToldIsKnownBeforeTheEnd) {
  write_atomically(folder.server_file(), R"({"updates":7,"choices":[]})");
  EXPECT_EQ(read_run(folder.path()).summary.server,
            "");  // it is of an earlier call, through servers
  RunFacts facts;
  facts.servers = 1;
  write_atomically(folder.facts_file(), to_json(facts).dump());
  EXPECT_EQ(read_run(folder.path()).summary.server, R"({"updates":7,"choices":[]})");
  write_atomically(folder.server_file(), "no JSON");
  EXPECT_THAT(message_of<BadInput>([&] { read_run(folder.path()); }), HasSubstr("server.json"));
}

TEST_F(ReadRun, RowsAreSummedUp) {
  const auto writer = make_metrics_writer(folder.metrics_file());
  writer->logged(row(1, 3.0));
  writer->logged(row(2, 2.5));
  EvalRecord test;
  test.step = 2;
  test.accuracy = 0.75;
  test.loss = 0.5;
  test.seconds = 9;
  writer->evaluated(test);
  const FoundRun run = read_run(folder.path());
  EXPECT_EQ(run.status, RunStatus::running);  // its writer lives
  EXPECT_EQ(run.summary.step, 2);
  EXPECT_EQ(run.summary.final_loss, 2.5);
  EXPECT_EQ(run.summary.samples, 16);
  EXPECT_EQ(run.summary.train_seconds, 4);
  EXPECT_EQ(run.summary.comm_s, 1);
  EXPECT_EQ(run.summary.seconds, 9);
  EXPECT_EQ(run.summary.test->accuracy, 0.75);
}

TEST_F(ReadRun, ALanguageModelHasFiguresOfItsOwn) {
  RunFacts facts;
  facts.tokens_per_sample = 64;
  write_atomically(folder.facts_file(), to_json(facts).dump());
  EvalRecord test;
  test.perplexity = 5.25;
  test.bits_per_byte = 2.5;
  make_metrics_writer(folder.metrics_file())->evaluated(test);
  const Summary found = read_run(folder.path()).summary;
  const Summary again = summary_from(to_json(found));
  for (const Summary& summary : {found, again}) {
    EXPECT_EQ(summary.facts.tokens_per_sample, 64);
    EXPECT_EQ(summary.test->perplexity, 5.25);
    EXPECT_EQ(summary.test->bits_per_byte, 2.5);
  }
}

TEST_F(ReadRun, AFailureIsToldUntilTheRunHasAnEnd) {
  const auto writer = make_metrics_writer(folder.metrics_file());  // it is about to exit
  write_atomically(folder.failure_file(), "the disk is full\n");
  EXPECT_EQ(describe_end(read_run(folder.path())), "failed after step 0 of 40: the disk is full");

  Summary summary;
  summary.facts.steps = 40;
  summary.step = 10;
  write_atomically(folder.summary_file(), to_json(summary).dump());
  EXPECT_EQ(describe_end(read_run(folder.path())), "stopped after step 10 of 40");
  summary.finished = true;
  write_atomically(folder.summary_file(), to_json(summary).dump());
  EXPECT_EQ(read_run(folder.path()).status, RunStatus::done);
  EXPECT_EQ(describe_end(read_run(folder.path())), "");
}

TEST_F(ReadRun, WhatWasChangedIsNamed) {
  write_atomically(folder.facts_file(), "{\"model\": \"cnn\"}");
  EXPECT_THAT(message_of<BadInput>([&] { read_run(folder.path()); }),
              HasSubstr("are of another version of asup, or were changed"));
  write_atomically(folder.facts_file(), "nonsense");
  EXPECT_THAT(message_of<BadInput>([&] { read_run(folder.path()); }), HasSubstr("facts.json"));
}

TEST(Records, TestAndValidationAreToldApart) {
  EvalRecord test{.loss = 0.5, .accuracy = 0.75, .top5 = 0.875, .validation = true};
  const auto row = to_json(test);
  EXPECT_EQ(row["validation_accuracy"], 0.75);
  EXPECT_EQ(row["validation_top5"], 0.875);
  EXPECT_FALSE(row.contains("test_accuracy"));
  EXPECT_FALSE(figures_of_test(row).has_value());
  const auto found = figures_of_validation(row);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->validation);
  EXPECT_EQ(found->loss, 0.5);
  EXPECT_EQ(found->top5, 0.875);

  Summary summary;
  summary.finished = summary.ended_early = true;
  summary.validation = test;
  test.validation = false;
  test.accuracy = 0.25;
  summary.test = test;
  summary.best = BestTest{17, 0.75, 3};
  const Summary again = summary_from(to_json(summary));
  EXPECT_EQ(again.test->accuracy, 0.25);
  EXPECT_EQ(again.validation->accuracy, 0.75);
  EXPECT_EQ(again.best->step, 17);
  EXPECT_EQ(again.best->tests_since, 3);
  EXPECT_TRUE(again.ended_early);
}

}  // namespace
}  // namespace asup::report
