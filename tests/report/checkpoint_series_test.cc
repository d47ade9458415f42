#include "asup/report/checkpoint_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::report {
namespace {

namespace fs = std::filesystem;
using asup::testing::TemporaryFolder;
using ::testing::ElementsAre;

class SeriesOfCheckpoints : public ::testing::Test {
 protected:
  void make(const std::vector<std::int64_t>& steps) {
    for (const std::int64_t step : steps) {
      fs::create_directories(series_.path(step));
      std::ofstream(series_.path(step) + "/index.json") << step;
    }
  }
  std::string file(const std::string& name) const { return place_.file("checkpoints/" + name); }

  const TemporaryFolder place_;
  const CheckpointSeries series_{place_.file("checkpoints")};
};

TEST_F(SeriesOfCheckpoints, KeepsTheLast) {
  EXPECT_THAT(series_.list(), ElementsAre());
  make({900, 1000, 20});
  fs::create_directory(file(".step-00001100.tmp"));
  EXPECT_THAT(series_.list(), ElementsAre(series_.path(20), series_.path(900), series_.path(1000)));
  series_.keep(0);
  EXPECT_FALSE(fs::exists(file(".step-00001100.tmp")));
  EXPECT_EQ(series_.list().size(), 3u) << "all";
  series_.keep(2);
  EXPECT_THAT(series_.list(), ElementsAre(series_.path(900), series_.path(1000)));
}

TEST_F(SeriesOfCheckpoints, KeepsTheBestBesideTheLast) {
  make({10, 20, 30, 40});
  series_.keep(2, 10);
  EXPECT_THAT(series_.list(), ElementsAre(series_.path(10), series_.path(30), series_.path(40)));
  EXPECT_EQ(fs::read_symlink(file("best")), "step-00000010");
  series_.keep(1, 40);
  EXPECT_THAT(series_.list(), ElementsAre(series_.path(40)));
  EXPECT_TRUE(fs::equivalent(file("best"), series_.path(40)));
  EXPECT_FALSE(fs::exists(file(".step-best")));
}

TEST_F(SeriesOfCheckpoints, IsInTheOrderOfSteps) {
  make({100'000'000, 99'999'999});
  EXPECT_THAT(series_.list(), ElementsAre(series_.path(99'999'999), series_.path(100'000'000)));
}

TEST_F(SeriesOfCheckpoints, LeavesAloneWhatIsNoneOfIts) {
  make({1, 2});
  fs::create_directory(file("step-00000001-copy"));
  series_.keep(1);
  EXPECT_THAT(series_.list(), ElementsAre(series_.path(2)));
  EXPECT_TRUE(fs::exists(file("step-00000001-copy")));
}

TEST_F(SeriesOfCheckpoints, WhatCannotBeUsedIsSetAside) {
  for (const auto* name : {"corrupt-step-00000030", "corrupt-step-00000030-1"}) {
    make({10, 20, 30});
    series_.set_aside(series_.path(30));
    EXPECT_TRUE(fs::exists(file(name)));
    series_.keep(2);
    EXPECT_THAT(series_.list(), ElementsAre(series_.path(10), series_.path(20)))
        << "it does not count";
  }
}

TEST_F(SeriesOfCheckpoints, PassesOverTheDamaged) {
  make({1, 2, 3});
  const auto found = series_.newest_whole([&](const std::string& path) {
    if (path != series_.path(1)) throw BadInput(path + ": is cut short");
  });
  EXPECT_EQ(found.path, series_.path(1));
  ASSERT_EQ(found.newer.size(), 2u);
  EXPECT_EQ(found.newer[0].path, series_.path(3));
  EXPECT_EQ(found.newer[1].why, series_.path(2) + ": is cut short");
}

}  // namespace
}  // namespace asup::report
