#include "asup/report/metrics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::report {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

StepRecord record(std::int64_t step, double loss) {
  StepRecord record;
  record.step = step;
  record.epoch = 1;
  record.loss = loss;
  record.samples = 64;
  record.step_seconds = 0.5;
  record.comm_s = 0.125;
  return record;
}

TEST(MetricsFile, RowsHaveEveryDigit) {
  const TemporaryFolder folder;
  const auto path = folder.file("metrics.jsonl");
  const double loss = 2.3025850929940457;
  make_metrics_writer(path)->logged(record(1, loss));
  make_metrics_writer(path)->logged(record(2, 1));  // goes on at the end
  EvalRecord test;
  test.step = 2;
  test.accuracy = 0.9;
  make_metrics_writer(path)->evaluated(test);

  const auto rows = read_metrics(path);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["loss"].get<double>(), loss);
  EXPECT_EQ(rows[0]["samples_per_s"].get<double>(), 128);
  EXPECT_EQ(rows[0]["comm_share"].get<double>(), 0.25);
  EXPECT_EQ(rows[2]["test_accuracy"].get<double>(), 0.9);
}

TEST(MetricsFile, AResumedRunGoesOnFromItsStep) {
  const TemporaryFolder folder;
  const auto path = folder.file("metrics.jsonl");
  for (const int step : {1, 2, 3}) make_metrics_writer(path)->logged(record(step, step));
  keep_metrics(path, path, 2);
  ASSERT_EQ(read_metrics(path).size(), 2u);
  EXPECT_EQ(read_metrics(path).back()["step"], 2);
  keep_metrics(folder.file("none"), folder.file("other"), 2);
  EXPECT_EQ(read_file(folder.file("other")), "");
}

TEST(MetricsFile, ACutLastLineIsLeftOutAndABadOneNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_metrics(folder.write("cut", "{\"step\":1}\n{\"ste")).size(), 1u);
  const auto bad = folder.write("bad", "{\"step\":1}\nnonsense\n");
  EXPECT_THAT(message_of<BadInput>([&] { read_metrics(bad); }), HasSubstr(bad + ":2: "));
}

TEST(MetricsFile, AFullDiskIsNamed) {
  EXPECT_EQ(message_of<Error>([] { make_metrics_writer("/dev/full")->logged(record(1, 1)); }),
            "/dev/full: cannot be written (No space left on device)");
}

TEST(Records, AddUpBySamples) {
  StepRecord all = record(1, 1.0);
  StepRecord last = record(2, 4.0);
  last.samples = 32;
  all.add(last);
  EXPECT_DOUBLE_EQ(all.loss, 2.0);
  EXPECT_EQ(all.samples, 96);
  EXPECT_EQ(all.step, 2);
  EXPECT_DOUBLE_EQ(all.step_seconds, 1.0);
}

TEST(Records, ASummaryComesBackAsItWas) {
  Summary summary;
  summary.facts.model = "cnn";
  summary.facts.workers = 3;
  summary.step = 12;
  summary.final_loss = std::nan("");
  summary.weights_sha256 = "abc";
  summary.bytes_sent = 1'000'000'000'000;
  summary.peak_device_memory_bytes = 3;
  summary.peak_device_memory_bytes_max = 2;
  summary.test.emplace().accuracy = 0.75;
  const auto json = to_json(summary);
  const Summary back = summary_from(nlohmann::ordered_json::parse(json.dump()));
  EXPECT_EQ(to_json(back).dump(), json.dump());
  EXPECT_EQ(back.facts.workers, 3);
  EXPECT_EQ(back.peak_device_memory_bytes_max, 2);
  EXPECT_TRUE(std::isnan(back.final_loss));
}

}  // namespace
}  // namespace asup::report
