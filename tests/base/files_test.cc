#include "asup/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <thread>

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

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

TEST(Files, ReplaceWhatWasThere) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  write_atomically(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

// No write of a file may be longer than this, as on a full disk.
TEST(Files, ADiskThatTakesNoMoreLeavesWhatWasThere) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  const auto usual = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit least{2, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &least), 0);
  const std::string said = message_of<Error>([&] { write_atomically(path, "new"); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, usual);
  EXPECT_EQ(said, path + ": cannot be written (File too large)");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

// Writers of one path, whose bytes must not mix: each whole file is one of theirs.
TEST(Files, EachWriterHasATemporaryFileOfItsOwn) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  constexpr int kWriters = 4;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer)
    writers.emplace_back([&, writer] {
      const std::string text(std::size_t{1} << 16, static_cast<char>('a' + writer));
      for (int i = 0; i < 20; ++i) EXPECT_NO_THROW(write_atomically(path, text));
    });
  for (std::thread& writer : writers) writer.join();
  const std::string text = read_file(path);
  EXPECT_EQ(text, std::string(std::size_t{1} << 16, text.front()));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"file"});
}

TEST(Files, AFolderThatIsNotThereIsNamed) {
  const TemporaryFolder folder;
  const auto path = folder.file("none/file");
  EXPECT_EQ(message_of<Error>([&] { write_atomically(path, "new"); }),
            path + ": cannot be written (No such file or directory)");
}

}  // namespace
}  // namespace asup
