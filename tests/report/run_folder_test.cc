#include "asup/report/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

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

// By another process, which ends when it is told to.
TEST(RunFolder, HasOneWriter) {
  const TemporaryFolder place;
  const RunFolder folder(place.file("run"));
  folder.create();
  std::ofstream(folder.config_file()) << "a run";
  std::array<int, 2> told, waits;
  ASSERT_EQ(pipe(told.data()), 0);
  ASSERT_EQ(pipe(waits.data()), 0);
  const pid_t writer = fork();
  char byte = 0;
  if (writer == 0) {
    close(waits[1]);
    const RunLock lock = folder.lock("rank 0 (pid 4711 on alpha)");
    _exit(write(told[1], "x", 1) == 1 && read(waits[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(waits[0]);
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  const auto named =
      HasSubstr(folder.path() + " is being written by rank 0 (pid 4711 on alpha): wait");
  const Seconds no_patience(0);
  EXPECT_THAT(message_of<BadInput>([&] { RunLock::check_free(folder.path(), no_patience); }),
              named);
  EXPECT_THAT(message_of<BadInput>([&] { RunLock::take(folder.path(), "me", no_patience); }),
              named);
  close(waits[1]);
  const RunLock lock = folder.lock("rank 1");  // it waits for the other's end
  int status = -1;
  waitpid(writer, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {told[0], told[1]}) close(fd);
}

TEST(RunFolder, WhatKilledWritersLeftIsRemoved) {
  const TemporaryFolder place;
  place.write(".summary.json.0815-1.tmp", "half");
  place.write("summary.json", "whole");
  RunFolder(place.path()).remove_leftovers();
  EXPECT_FALSE(fs::exists(place.file(".summary.json.0815-1.tmp")));
  EXPECT_TRUE(fs::exists(place.file("summary.json")));
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
