#include "asup/train/checkpoint/checkpoint_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "tests/support/temporary_folder.h"

namespace asup::train {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
using ::testing::HasSubstr;

class CheckpointFileTest : public ::testing::Test {
 protected:
  CheckpointFileTest() {
    CheckpointFile file;
    file.header = {{"step", 7}};
    file.sections = {{"parameters", std::string("\0\1\2\3", 4)}, {"empty", ""}, {"last", "end"}};
    write_checkpoint_file(path_, file);
    bytes_ = read_file(path_);
  }

  // What is said of the file after it was replaced by `bytes`.
  std::string refusal(const std::string& bytes) {
    folder_.write("step-7.asup", bytes);
    return message_of<BadInput>([&] { read_checkpoint_file(path_); });
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.file("step-7.asup");
  std::string bytes_;
};

TEST_F(CheckpointFileTest, ReadsWhatWasWritten) {
  const CheckpointFile file = read_checkpoint_file(path_);
  EXPECT_EQ(file.header["step"], 7);
  ASSERT_EQ(file.sections.size(), 3u);
  EXPECT_EQ(file.section("parameters"), std::string("\0\1\2\3", 4));
  EXPECT_EQ(file.section("empty"), "");
  EXPECT_EQ(file.section("last"), "end");
  EXPECT_THROW(file.section("none"), BadInput);
}

// Wherever the file ends too early, somebody says so.
TEST_F(CheckpointFileTest, EveryTruncationIsFound) {
  for (std::size_t length = 0; length < bytes_.size(); ++length) {
    const std::string message = refusal(bytes_.substr(0, length));
    EXPECT_THAT(message, HasSubstr(path_ + ": is cut short")) << length;
  }
}

TEST_F(CheckpointFileTest, EveryFlippedBitIsFound) {
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    EXPECT_THAT(refusal(bytes), HasSubstr(path_)) << at;
  }
}

TEST_F(CheckpointFileTest, OtherFilesAreRefused) {
  EXPECT_EQ(refusal("something else, long enough to be a header"),
            path_ + ": is no checkpoint of asup");
  EXPECT_EQ(refusal(bytes_ + "more"), path_ + ": is corrupt: there are bytes after its end");
  std::string newer = bytes_;
  newer[8] = 2;
  EXPECT_EQ(refusal(newer), path_ + ": is a checkpoint of format 2; this asup reads format 1");
}

}  // namespace
}  // namespace asup::train
