#include "asup/train/worker_changes.h"

#include <gtest/gtest.h>

#include "tests/train/said.h"

namespace asup::train {
namespace {

using testing::said;

TrainConfig of(std::int64_t pipeline, std::int64_t tensor, std::int64_t batch) {
  TrainConfig config;
  config.pipeline = pipeline;
  config.tensor = tensor;
  config.batch = batch;
  return config;
}

TEST(WorkerChanges, WholeGroupsTrain) {
  EXPECT_EQ(workers_in_groups(of(1, 1, 64), 5), 5);
  EXPECT_EQ(workers_in_groups(of(2, 1, 64), 4), 4);
  EXPECT_EQ(workers_in_groups(of(2, 1, 64), 3), 2);
  EXPECT_EQ(workers_in_groups(of(2, 2, 64), 11), 8);
  EXPECT_EQ(workers_in_groups(of(2, 2, 64), 3), 0);
  EXPECT_EQ(workers_in_groups(of(1, 2, 3), 9), 6);  // a sample for each group
}

TEST(WorkerChanges, GroupsOfAPipelineHaveEvenParts) {
  EXPECT_EQ(workers_in_groups(of(2, 1, 24), 6), 6);
  EXPECT_EQ(workers_in_groups(of(2, 1, 32), 6), 4);  // 3 do not divide 32
  TrainConfig cut = of(2, 1, 24);
  cut.microbatches = 6;
  EXPECT_EQ(workers_in_groups(cut, 8), 8);
  EXPECT_EQ(workers_in_groups(cut, 6), 4);  // 6 do not divide 8
  EXPECT_EQ(workers_in_groups(of(1, 2, 32), 6), 6);
}

TEST(WorkerChanges, GroupsAreTold) {
  EXPECT_EQ(describe_groups(of(2, 1, 64), 3),
            "1 group of 2 workers goes on; 1 waits to take a place");
  EXPECT_EQ(describe_groups(of(2, 2, 64), 11),
            "2 groups of 4 workers go on; 3 wait to take a place");
  EXPECT_EQ(describe_groups(of(2, 2, 64), 8), "2 groups of 4 workers go on");
}

TEST(WorkerChanges, GroupsThroughServersStayAsTheyAre) {
  EXPECT_TRUE(can_change_workers(said({{"workers", "4"}, {"pipeline", "2"}})));
  EXPECT_FALSE(can_change_workers(said({{"workers", "4"}, {"pipeline", "2"}, {"sync", "server"}})));
  EXPECT_TRUE(can_change_workers(said({{"workers", "4"}, {"sync", "server"}})));
}

}  // namespace
}  // namespace asup::train
