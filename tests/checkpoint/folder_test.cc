// What can happen to a checkpoint on a disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/checkpoint/reader.h"
#include "asup/checkpoint/safetensors.h"
#include "asup/checkpoint/writer.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace asup::checkpoint {
namespace {

using asup::testing::message_of;
using asup::testing::run_ranks;
using asup::testing::TemporaryFolder;
using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(Safetensors, ComeBackBitForBit) {
  const TemporaryFolder folder;
  const std::vector<sync::NamedTensor> tensors{
      {"a", torch::randn({2, 3})},
      {"b", torch::randn({4, 3}).t()},  // not row by row in memory
      {"c", torch::tensor(7)},
      {"d", torch::empty({0, 2})},
      {"e", torch::randn({3}).to(torch::kBFloat16)},
      {"f", torch::tensor({true, false})}};
  const SafetensorsImage image(tensors);
  write_atomically(folder.file("x"), image.pieces());
  EXPECT_EQ(read_file(folder.file("x")), image.text());
  SafetensorsFile file(folder.file("x"));
  const auto all = SafetensorsFile::read_all(image.text());
  EXPECT_EQ(all.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(torch::equal(file.read(name), tensor)) << name;
    EXPECT_TRUE(torch::equal(all.at(name), tensor)) << name;
  }
  EXPECT_FALSE(file.has("g"));
  EXPECT_EQ(message_of<BadInput>([&] { file.read("g"); }), folder.file("x") + ": has no tensor g");
}

// The format as others write it, by hand: little-endian length, JSON, data.
TEST(Safetensors, AreReadAsOthersWriteThem) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}})";
  folder.write("x", std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header +
                        std::string("\1\0\2\1", 4));
  EXPECT_TRUE(torch::equal(SafetensorsFile(folder.file("x")).read("w"),
                           torch::tensor({1, 258}, torch::kInt16)));
}

class CheckpointFolderTest : public ::testing::Test {
 protected:
  CheckpointFolderTest() {
    run_ranks(1, net::LinkKind::inproc, [&](Job& job) {
      const auto communicator = make_communicator(job);
      write(*communicator, path_, {{"step", 7}},
            parts_of_rank({{{"a", torch::arange(6).reshape({2, 3})}, {"empty", torch::empty({0})}},
                           {{"own", torch::tensor(1.5)}}},
                          0, 1));
    });
  }

  // What is said of the checkpoint after a file of it was replaced by `bytes`; "": it is read, and
  // has what was written.
  std::string refusal(const std::string& file, const std::string& bytes) {
    folder_.write("step-7/" + file, bytes);
    try {
      Folder folder(path_);
      folder.verify();
      EXPECT_EQ(folder.index().run["step"], 7);
      EXPECT_TRUE(torch::equal(folder.read("a"), torch::arange(6).reshape({2, 3})));
      return "";
    } catch (const BadInput& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.file("step-7");
  const std::string shard_ = "shard-1-of-1.safetensors";
};

TEST_F(CheckpointFolderTest, IsReadByName) {
  Folder folder(path_);
  EXPECT_EQ(folder.read("own").item<double>(), 1.5);
  EXPECT_EQ(folder.read("empty").numel(), 0);
  EXPECT_EQ(message_of<BadInput>([&] { folder.read("none"); }), path_ + ": has no tensor none");
}

TEST_F(CheckpointFolderTest, EveryTruncationIsFound) {
  for (const std::string& file : {std::string("index.json"), shard_}) {
    const std::string bytes = read_file(path_ + "/" + file);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      EXPECT_THAT(refusal(file, bytes.substr(0, length)), HasSubstr(path_)) << file << length;
    EXPECT_EQ(refusal(file, bytes), "");
  }
}

// A bit of a shard's header that says nothing of what is read may go unnoticed; no other does.
TEST_F(CheckpointFolderTest, EveryFlippedBitIsFoundOrHarmless) {
  for (const std::string& file : {std::string("index.json"), shard_}) {
    const std::string bytes = read_file(path_ + "/" + file);
    int unnoticed = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      const std::string message = refusal(file, flipped);
      unnoticed += message.empty();
      EXPECT_THAT(message, AnyOf("", HasSubstr(path_))) << file << at;
    }
    EXPECT_LE(unnoticed, file == shard_ ? 16 : 0) << file;
    EXPECT_EQ(refusal(file, bytes), "");
  }
}

TEST_F(CheckpointFolderTest, HasFilesOfItsFolderAlone) {
  Index index = index_from(read_file(path_ + "/index.json"));
  for (const std::string& name :
       {"../step-7/" + shard_, "/" + shard_, std::string(".."), std::string()}) {
    index.tensors.at("a").parts[0].shard = name;
    EXPECT_EQ(refusal("index.json", to_text(index)),
              fmt::format("{}: is corrupt: '{}' is no file of its folder", path_, name));
  }
}

// Nobody takes memory for what an index says of a tensor that its parts do not make.
TEST_F(CheckpointFolderTest, TensorsAreWhatTheirPartsMake) {
  const Index whole = index_from(read_file(path_ + "/index.json"));
  const auto said = [&](const auto& change) {
    Index index = whole;
    change(index.tensors.at("a"));
    return refusal("index.json", to_text(index));
  };
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  const std::string lacks = path_ + ": is corrupt: a is not whole";
  const std::string outside = path_ + ": is corrupt: a part of a is not in it";
  EXPECT_EQ(said([](auto& a) { a.shape = {kHuge, 3}; }), lacks);
  EXPECT_EQ(said([](auto& a) { a.parts.clear(); }), lacks);
  EXPECT_EQ(said([](auto& a) { a.shape = {-2, 3}; }), outside);
  EXPECT_EQ(said([](auto& a) { a.shape = {kHuge, kHuge}; }), outside);
  EXPECT_EQ(said([](auto& a) { a.parts[0].begin = {1, 0}; }), outside);
  EXPECT_EQ(said([](auto& a) { a.parts[0].begin = {std::int64_t{1} << 62, 0}; }), outside);
  EXPECT_EQ(said([](auto& a) { a.parts.push_back(a.parts[0]); }),
            path_ + ": is corrupt: the parts of a are more than it");
}

TEST_F(CheckpointFolderTest, OtherThingsAreRefused) {
  EXPECT_EQ(refusal("index.json", "{}"), path_ + ": is no checkpoint of asup");
  EXPECT_EQ(refusal("index.json", "something else"),
            path_ + ": is no checkpoint of asup, or corrupt");
  EXPECT_EQ(refusal("index.json", R"({"asup_checkpoint": 9})"),
            path_ + ": is a checkpoint of format 9; this asup reads format 2");
  std::filesystem::remove(path_ + "/index.json");
  EXPECT_THAT(message_of<BadInput>([&] { Folder folder(path_); }),
              HasSubstr("index.json: cannot be read (No such file or directory)"));
  folder_.write("file", "ASUPCKPT");
  EXPECT_EQ(message_of<BadInput>([&] { Folder folder(folder_.file("file")); }),
            folder_.file("file") + ": is no checkpoint of asup, or one of an older version");
}

}  // namespace
}  // namespace asup::checkpoint
