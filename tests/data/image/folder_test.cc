#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "asup/data/image/decoder.h"
#include "asup/data/image/files.h"
#include "tests/data/image/pictures.h"

namespace asup::data::image {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// train and val, with these files.
struct Tree {
  Tree() {
    for (const char* file : {"train/dog/2.jpg", "train/dog/1.JPG", "train/cat/x.png",
                             "train/cat/more/y.jpeg", "val/cat/v.png", "val/dog/w.png"})
      add(file);
  }
  void add(const std::string& file) const { put(folder.path() / file, {1, 2, 3}); }
  std::string refused(Split split = Split::train) const {
    return message_of([&] { open_image_folder(folder.path(), split); });
  }

  TemporaryFolder folder;
};

TEST(ImageFolder, NumbersClassesAndFilesByTheirNames) {
  const Tree tree;
  tree.add("train/cat/notes.txt");
  tree.add("train/cat/.hidden.jpg");
  tree.add("train/.hidden/a.jpg");
  const auto files = open_image_folder(tree.folder.path(), Split::train);
  EXPECT_THAT(files->classes(), ElementsAre("cat", "dog"));
  ASSERT_EQ(files->size(), 4u);
  std::vector<std::string> names;
  std::vector<int> labels;
  for (std::size_t i = 0; i < 4; ++i) {
    names.push_back(fs::path(files->name(i)).lexically_relative(tree.folder.path()).string());
    labels.push_back(files->label(i));
  }
  EXPECT_THAT(names, ElementsAre("train/cat/more/y.jpeg", "train/cat/x.png", "train/dog/1.JPG",
                                 "train/dog/2.jpg"));
  EXPECT_THAT(labels, ElementsAre(0, 0, 1, 1));
  Bytes bytes;
  files->read(3, bytes);
  EXPECT_THAT(bytes, ElementsAre(1, 2, 3));
  EXPECT_EQ(open_image_folder(tree.folder.path(), Split::test)->size(), 2u);
}

TEST(ImageFolder, TestsOnValOrElseOnTest) {
  const Tree tree;
  for (const char* file : {"test/cat/1.png", "test/cat/2.png", "test/dog/3.png"}) tree.add(file);
  EXPECT_EQ(open_image_folder(tree.folder.path(), Split::test)->size(), 2u);
  fs::remove_all(tree.folder.path() / "val");
  EXPECT_EQ(open_image_folder(tree.folder.path(), Split::test)->size(), 3u);
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const Tree tree;
  const fs::path& folder = tree.folder.path();
  EXPECT_THAT(message_of([&] { open_image_folder(folder / "nowhere", Split::train); }),
              HasSubstr("nowhere: there is no such folder"));
  EXPECT_THAT(message_of([&] { open_image_folder(folder / "val", Split::train); }),
              HasSubstr("has no folder train/"));
  fs::remove_all(folder / "val");
  EXPECT_THAT(tree.refused(), AllOf(HasSubstr("neither val/ nor test/"), HasSubstr("val/CLASS")));
  fs::create_directories(folder / "val");
  EXPECT_THAT(tree.refused(),
              AllOf(HasSubstr("/val holds no folders"), HasSubstr("CLASS/picture.jpg")));
}

TEST(ImageFolder, RefusesAClassWithoutImages) {
  const Tree tree;
  tree.add("train/eel/a.bmp");
  tree.add("val/eel/a.png");
  EXPECT_THAT(tree.refused(), AllOf(HasSubstr("train/eel holds no images"), HasSubstr("like a.bmp"),
                                    HasSubstr("'eel'")));
  fs::remove(tree.folder.path() / "val/eel/a.png");
  tree.add("train/eel/b.png");
  EXPECT_EQ(open_image_folder(tree.folder.path(), Split::train)->size(), 5u);
  EXPECT_THAT(tree.refused(Split::test), HasSubstr("val/eel holds no images"));
}

TEST(ImageFolder, RefusesClassesThatDiffer) {
  const Tree tree;
  tree.add("val/fox/a.png");
  EXPECT_THAT(tree.refused(), AllOf(HasSubstr("val has classes that"), HasSubstr("fox")));
  fs::rename(tree.folder.path() / "val/fox", tree.folder.path() / "train/fox");
  tree.add("train/gnu/a.png");
  EXPECT_THAT(tree.refused(Split::test),
              AllOf(HasSubstr("val lacks classes"), HasSubstr("fox, gnu")));
}

TEST(ImageFolder, FollowsLinksButNotInCircles) {
  const Tree tree;
  const fs::path& folder = tree.folder.path();
  fs::create_directory_symlink(folder / "val/cat", folder / "train/dog/linked");
  EXPECT_EQ(open_image_folder(folder, Split::train)->size(), 5u);
  fs::create_directory_symlink(folder / "train/dog", folder / "train/dog/circle");
  EXPECT_THAT(tree.refused(), AllOf(HasSubstr("dog/circle is a link that leads back to"),
                                    HasSubstr("remove the link")));
}

TEST(ImageFolder, AFileThatCannotBeReadIsBroken) {
  const Tree tree;
  const fs::path& folder = tree.folder.path();
  fs::create_symlink("nowhere.jpg", folder / "train/cat/a.jpg");
  ::mkfifo((folder / "train/cat/b.jpg").c_str(), 0600);
  const auto files = open_image_folder(folder, Split::train);
  Bytes bytes;
  for (const std::size_t index : {0u, 1u}) EXPECT_THROW(files->read(index, bytes), BrokenImage);
}

}  // namespace
}  // namespace asup::data::image
