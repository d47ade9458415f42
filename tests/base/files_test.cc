#include "asup/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/base/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup {
namespace {

using asup::testing::message_of;
using asup::testing::TemporaryFolder;
namespace fs = std::filesystem;

TEST(Files, AreReadWhole) {
  const TemporaryFolder folder;
  const std::string text("a\0b\n", 4);
  EXPECT_EQ(read_file(folder.write("file", text)), text);
  EXPECT_EQ(read_file(folder.write("empty", "")), "");
  EXPECT_EQ(message_of<BadInput>([&] { read_file(folder.path()); }),
            folder.path() + ": cannot be read (Is a directory)");
}

TEST(Files, ReplaceWhatWasThere) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  write_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_FALSE(fs::exists(temporary_path(path)));
}

// /dev/full answers every write as a full disk does.
TEST(Files, AFullDiskLeavesWhatWasThere) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  fs::create_symlink("/dev/full", temporary_path(path));
  EXPECT_EQ(message_of<Error>([&] { write_atomically(path, "new"); }),
            path + ": cannot be written (No space left on device)");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_FALSE(fs::exists(fs::symlink_status(temporary_path(path))));
}

TEST(Files, AFolderThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.file("none/file");
  EXPECT_EQ(message_of<Error>([&] { write_atomically(path, "new"); }),
            path + ": cannot be written (No such file or directory)");
}

}  // namespace
}  // namespace asup
