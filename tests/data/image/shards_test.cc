#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "asup/data/image/decoder.h"
#include "asup/data/image/files.h"
#include "tests/data/image/pictures.h"

namespace asup::data::image {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two shards of training images and one to test on.
struct Shards {
  Shards() {
    write("train-000000.tar", {{"a.jpg", Bytes(700, 1)},
                               {"a.cls", bytes_of("0")},
                               {"b.cls", bytes_of("2\n")},
                               {"b.json", bytes_of("{}")},
                               {"b.png", Bytes(512, 2)}});
    write("train-000001.tar", {{"c.jpg", {3, 3}}, {"c.cls", bytes_of("1")}});
    write("val-000000.tar", {{"v.jpg", {4}}, {"v.cls", bytes_of("1")}});
  }
  void write(const std::string& name, const std::vector<Member>& members, bool ended = true) const {
    folder.write(name, tar(members, ended));
  }
  std::string refused(Split split = Split::train) const {
    return message_of([&] { open_shards(folder.path(), split); });
  }
  TemporaryFolder folder;
};

TEST(Shards, AreReadWithoutUnpacking) {
  const Shards shards;
  EXPECT_TRUE(is_shard_folder(shards.folder.path()));
  const auto files = open_shards(shards.folder.path(), Split::train);
  ASSERT_EQ(files->size(), 3u);
  EXPECT_THAT(files->classes(), ElementsAre("0", "1", "2"));
  std::vector<int> labels;
  std::vector<Bytes> contents(3);
  for (std::size_t i = 0; i < 3; ++i) {
    labels.push_back(files->label(i));
    files->read(i, contents[i]);
  }
  EXPECT_THAT(labels, ElementsAre(0, 2, 1));
  EXPECT_THAT(contents, ElementsAre(Bytes(700, 1), Bytes(512, 2), Bytes{3, 3}));
  EXPECT_THAT(files->name(2), HasSubstr("train-000001.tar (the image at byte 512)"));
  const auto test = open_shards(shards.folder.path(), Split::test);
  EXPECT_EQ(test->size(), 1u);
  EXPECT_EQ(test->classes().size(), 3u);
}

TEST(Shards, TakeLongNamesAndFolders) {
  const Shards shards;
  const std::string key = std::string(150, 'k') + "/picture";
  shards.write("train-000001.tar", {{key + ".jpg", {7}},
                                    {key + ".cls", bytes_of("4")},
                                    {"x.y/z.jpg", {8}},
                                    {"x.y/z.cls", bytes_of("3")}});
  const auto files = open_shards(shards.folder.path(), Split::train);
  ASSERT_EQ(files->size(), 4u);
  EXPECT_EQ(files->label(2), 4);
  EXPECT_EQ(files->label(3), 3);
  EXPECT_EQ(files->classes().size(), 5u);
}

TEST(Shards, TakeTheExtendedHeadersOfPax) {
  const Shards shards;
  shards.write("train-000001.tar", {{"PaxHeader", bytes_of("20 path=renamed.jpg\n"), 'x'},
                                    {"long.jpg", {7}},
                                    {"long.cls", bytes_of("1")}});
  EXPECT_THAT(shards.refused(), HasSubstr("renamed has an image and no class"));
  for (const char* wrong : {"12 size=9x9\n", "12 size=-12\n", "8 size=\n"}) {
    shards.write("train-000001.tar", {{"PaxHeader", bytes_of(wrong), 'x'}, {"c.jpg", {7}}});
    EXPECT_THAT(shards.refused(), HasSubstr("is damaged: an extended header has '")) << wrong;
  }
}

TEST(Shards, TakeForAnImageWhatFollowsTheKeyAsOne) {
  const Shards shards;
  shards.write("train-000001.tar", {{"./c.jpg", {7}},  // as of `tar cf train-000001.tar .`
                                    {"./c.seg.png", {8}},
                                    {"./._c.jpg", {9}},  // hidden
                                    {"./c.cls", bytes_of("1")},
                                    {"./d.seg.png", {8}},
                                    {"./d.JPG", {6}},
                                    {"./d.cls", bytes_of("0")}});
  const auto files = open_shards(shards.folder.path(), Split::train);
  ASSERT_EQ(files->size(), 4u);
  Bytes c, d;
  files->read(2, c);
  files->read(3, d);
  EXPECT_THAT(c, ElementsAre(7));
  EXPECT_THAT(d, ElementsAre(6));
  EXPECT_EQ(files->label(2), 1);
  EXPECT_EQ(files->label(3), 0);
}

// There may be more of them than a process may have open.
TEST(Shards, AreOpenOnlyWhileTheyAreRead) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const Shards shards;
  const auto before = count();
  const auto files = open_shards(shards.folder.path(), Split::train);
  Bytes bytes;
  files->read(2, bytes);
  EXPECT_EQ(count(), before);
}

TEST(Shards, AnImageOfMoreThanAGigabyteIsBroken) {
  const Shards shards;
  const Bytes begin = tar({{"c.cls", bytes_of("1")},
                           {"PaxHeader", bytes_of("19 size=1073741825\n"), 'x'},
                           {"c.jpg", {}}},
                          false);
  const auto path = shards.folder.write("train-000001.tar", begin);
  std::filesystem::resize_file(path, begin.size() + (std::uint64_t{2} << 30));  // a hole
  const auto files = open_shards(shards.folder.path(), Split::train);
  Bytes bytes;
  EXPECT_THAT(asup::testing::message_of<BrokenImage>([&] { files->read(2, bytes); }),
              HasSubstr("larger than a gigabyte"));
}

TEST(Shards, SayWhatIsMissing) {
  const Shards shards;
  shards.write("train-000001.tar", {{"c.jpg", {3}}, {"d.jpg", {3}}, {"d.cls", bytes_of("1")}});
  EXPECT_THAT(shards.refused(), AllOf(HasSubstr("train-000001.tar: c has an image and no class"),
                                      HasSubstr("c.cls")));
  shards.write("train-000001.tar", {{"d.cls", bytes_of("1")}});
  EXPECT_THAT(shards.refused(), HasSubstr("d.cls has no image beside it"));
  for (const char* wrong : {"dog", "", "-1", "99999999", "1 2"}) {
    shards.write("train-000001.tar", {{"d.jpg", {3}}, {"d.cls", bytes_of(wrong)}});
    EXPECT_THAT(shards.refused(), AllOf(HasSubstr("d.cls holds '"), HasSubstr("number of a class")))
        << wrong;
  }
}

TEST(Shards, ThatAreCutShortOrDamagedAreRefused) {
  const Shards shards;
  const Bytes whole = tar({{"c.jpg", Bytes(5000, 3)}, {"c.cls", bytes_of("1")}});
  const auto cut_at = [&](std::size_t size) {
    shards.folder.write("train-000001.tar",
                        Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
    return shards.refused();
  };
  EXPECT_THAT(cut_at(0), HasSubstr("is no tar archive"));
  EXPECT_THAT(cut_at(100), HasSubstr("is no tar archive"));
  EXPECT_THAT(cut_at(3000),
              AllOf(HasSubstr("is cut short: c.jpg should have 5000 bytes, and there are 2488"),
                    HasSubstr("get it again")));
  EXPECT_THAT(cut_at(512 + 5120), HasSubstr("is cut short: nothing ends the archive"));
  Bytes damaged = whole;
  damaged[512 + 5120 + 3] ^= 0xFF;
  shards.folder.write("train-000001.tar", damaged);
  EXPECT_THAT(shards.refused(), HasSubstr("is damaged: there is no header at byte 5632"));
  shards.folder.write("train-000001.tar", gzip(whole));
  EXPECT_THAT(shards.refused(), HasSubstr("is no tar archive"));
}

TEST(Shards, ToTestOnHaveNoOtherClasses) {
  const Shards shards;
  shards.write("val-000000.tar", {{"v.jpg", {4}}, {"v.cls", bytes_of("3")}});
  EXPECT_THAT(shards.refused(Split::test), AllOf(HasSubstr("class 3"), HasSubstr("0 … 2")));
  std::filesystem::remove(shards.folder.path() / "val-000000.tar");
  EXPECT_THAT(shards.refused(), HasSubstr("neither val-….tar nor test-….tar"));
  TemporaryFolder empty;
  EXPECT_FALSE(is_shard_folder(empty.path()));
  EXPECT_FALSE(is_shard_folder(empty.path() / "nowhere"));
}

}  // namespace
}  // namespace asup::data::image
