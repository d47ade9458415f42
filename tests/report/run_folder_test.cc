#include "asup/report/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"

namespace asup::report {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
namespace fs = std::filesystem;

std::string text_in(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(RunFolder, EarlierRunsMoveAsideAndAllStay) {
  const TemporaryFolder place;
  const RunFolder folder(place.file("deep/run/"));
  const std::string stem = place.file("deep/run.previous-");
  EXPECT_EQ(folder.create(), std::nullopt);
  for (const auto* number : {"1", "2", "3"}) {
    std::ofstream(folder.config_file()) << number;
    EXPECT_EQ(folder.create(), stem + number);
    EXPECT_TRUE(fs::is_empty(folder.checkpoints()));
  }
  for (const auto* number : {"1", "2", "3"})
    EXPECT_EQ(text_in(stem + number + "/config.toml"), number);
  fs::remove_all(stem + "2");
  std::ofstream(folder.config_file()) << "another";
  EXPECT_EQ(folder.create(), stem + "2") << "the first number that is free";
}

TEST(RunFolder, SomethingElseIsLeftAlone) {
  const TemporaryFolder place;
  const auto thesis = place.write("thesis.txt", "years of work");
  EXPECT_THAT(message_of<BadInput>([&] { RunFolder(place.path()).create(); }),
              HasSubstr("holds something that is not a run of asup"));
  EXPECT_THAT(message_of<BadInput>([&] { RunFolder(thesis + "/run").create(); }),
              HasSubstr("is a file"));
  EXPECT_TRUE(fs::exists(thesis));

  const RunFolder folder(place.file("run"));
  folder.create();
  std::ofstream(folder.config_file()) << "a run";
  fs::create_directory(place.file("run.previous-1"));
  EXPECT_EQ(folder.create(), place.file("run.previous-2"));
  EXPECT_TRUE(fs::is_empty(place.file("run.previous-1")));
}

TEST(RunFolder, KeepsTheLastCheckpoints) {
  const TemporaryFolder place;
  const RunFolder folder(place.file("run"));
  EXPECT_THAT(folder.list_checkpoints(), ElementsAre());
  folder.create();
  for (const int step : {900, 1000, 20}) {
    fs::create_directory(folder.checkpoint(step));
    std::ofstream(folder.checkpoint(step) + "/index.json") << step;
  }
  fs::create_directory(place.file("run/checkpoints/.step-00001100.tmp"));
  EXPECT_THAT(folder.list_checkpoints(),
              ElementsAre(folder.checkpoint(20), folder.checkpoint(900), folder.checkpoint(1000)));
  folder.keep_checkpoints(2);
  EXPECT_THAT(folder.list_checkpoints(),
              ElementsAre(folder.checkpoint(900), folder.checkpoint(1000)));
  EXPECT_FALSE(fs::exists(place.file("run/checkpoints/.step-00001100.tmp")));
}

TEST(RunFolder, WhatCannotBeUsedIsSetAside) {
  const TemporaryFolder place;
  const RunFolder folder(place.file("run"));
  folder.create();
  for (const auto* name : {"corrupt-step-00000030", "corrupt-step-00000030-1"}) {
    for (const int step : {10, 20, 30}) fs::create_directory(folder.checkpoint(step));
    folder.set_aside(folder.checkpoint(30));
    EXPECT_TRUE(fs::exists(folder.checkpoints() + "/" + name));
    folder.keep_checkpoints(2);
    EXPECT_THAT(folder.list_checkpoints(),
                ElementsAre(folder.checkpoint(10), folder.checkpoint(20)))
        << "it does not count";
  }
}

TEST(RunFolder, OnlyARunIsARun) {
  const TemporaryFolder place;
  EXPECT_THAT(message_of<BadInput>([&] { RunFolder(place.path()).check_is_run(); }),
              HasSubstr("is not a run folder"));
}

TEST(RunFolder, DefaultNameHasModelDataAndTime) {
  EXPECT_THAT(default_run_folder("cnn", "/data/my images/"),
              MatchesRegex("runs/cnn-my-images-[0-9]{8}-[0-9]{6}"));
  EXPECT_EQ(default_run_folder("cnn", "/data/my images/", "20260131-235959-4711"),
            "runs/cnn-my-images-20260131-235959-4711");
}

}  // namespace
}  // namespace asup::report
