// What TensorBoard itself makes of such files is in tests/train/tensorboard_test.py.
#include "asup/report/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::report {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(EventFile, ChecksumsAreCastagnolis) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
}

TEST(EventFile, ALaterOneIsReadLater) {
  const TemporaryFolder folder;
  folder.write("events.out.tfevents.9000000000.elsewhere.1", "");
  folder.write("metrics.jsonl", "");
  const EventFile first(folder.path(), 1), second(folder.path(), 1);
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("events.out.tfevents.9000000000.elsewhere.1",
                          HasSubstr("events.out.tfevents.9000000001."),
                          HasSubstr("events.out.tfevents.9000000002."), "metrics.jsonl"));
}

TEST(EventFile, GoesAlongToAnotherFolder) {
  const TemporaryFolder from, to;
  from.write("metrics.jsonl", "");
  const EventFile file(from.path(), 1);
  copy_event_files(from.path(), to.path());
  const auto names = names_in(to.path());
  ASSERT_EQ(names.size(), 1U);
  EXPECT_EQ(read_file(to.file(names[0])), read_file(from.file(names[0])));
}

TEST(EventFile, WhatCannotBeWrittenIsSaidWithItsPath) {
  const TemporaryFolder folder;
  const auto missing = folder.file("missing");
  EXPECT_THAT(message_of<Error>([&] { EventFile(missing, 1); }), HasSubstr(missing));
}

}  // namespace
}  // namespace asup::report
