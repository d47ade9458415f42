#include "asup/data/image_files_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/data/image/pictures.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

// Two classes; no two images are alike.
struct Tree {
  explicit Tree(bool one_size = false) {
    for (int i = 0; i < 12; ++i) {
      const int width = one_size ? 32 : 40 + 3 * i, height = one_size ? 32 : 60 - 2 * i;
      const auto seed = static_cast<std::uint64_t>(i);
      put(fmt::format("train/{}/{:02}.jpg", i % 2 == 0 ? "a" : "b", i),
          image::jpeg(image::smooth(width, height, seed)));
    }
    for (int i = 0; i < 4; ++i)
      put(fmt::format("val/{}/{}.png", i % 2 == 0 ? "a" : "b", i),
          image::png(image::smooth(one_size ? 32 : 48, one_size ? 32 : 40,
                                   static_cast<std::uint64_t>(100 + i))));
  }
  void put(const std::string& file, const Bytes& bytes) const {
    image::put(folder.path() / file, bytes);
  }
  void copy(const std::string& from, const std::string& to) const {
    fs::copy_file(folder.path() / from, folder.path() / to, fs::copy_options::overwrite_existing);
  }
  std::unique_ptr<Dataset> open(const DatasetOptions& options, Split split = Split::train) const {
    return open_dataset("imagefolder:" + folder.path().string(), split, options);
  }

  TemporaryFolder folder;
};

DatasetOptions augmented() {
  DatasetOptions options{.seed = 5};
  options.image_size = 24;
  options.threads = 2;
  options.augment = {
      .shift = 2, .flip = true, .crop = 0.3, .jitter = {0.4, 0.4, 0.4, 0.1}, .cutout = 6};
  return options;
}

TEST(ImageFiles, AreADataSet) {
  const Tree tree;
  DatasetOptions options;
  options.image_size = 16;
  const auto train = tree.open(options);
  EXPECT_EQ(train->size(), 12u);
  EXPECT_EQ(train->classes(), 2);
  EXPECT_THAT(train->class_names(), ElementsAre("a", "b"));
  EXPECT_EQ(train->input_shape(), (std::vector<std::int64_t>{3, 16, 16}));
  const Batch batch = train->get(all_of(*train));
  EXPECT_EQ(batch.input.sizes(), (std::vector<std::int64_t>{12, 3, 16, 16}));
  EXPECT_TRUE(batch.target.equal(torch::tensor({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1})));
  EXPECT_THAT(train->broken(), IsEmpty());
  const std::vector<std::int64_t> none;
  EXPECT_EQ(train->get(none).input.sizes(), (std::vector<std::int64_t>{0, 3, 16, 16}));
}

TEST(ImageFiles, AreKnownByTheirLayout) {
  const Tree tree(true);
  const auto by_path = open_dataset(tree.folder.path(), Split::test);
  EXPECT_EQ(by_path->size(), 4u);
  EXPECT_EQ(by_path->input_shape(), (std::vector<std::int64_t>{3, 32, 32}));
}

TEST(ImageFiles, OfOneSizeAreTakenAsTheyAre) {
  const Tree tree(true);
  DatasetOptions options;
  options.normalisation = {{0.5, 0.25, 0.125}, {0.5, 0.25, 2}};
  const std::vector<std::int64_t> third{2};  // val/b/1.png
  const image::Picture picture = image::smooth(32, 32, 101);
  const torch::Tensor input = tree.open(options, Split::test)->get(third).input[0];
  for (int y = 0; y < 32; y += 5)
    for (int x = 0; x < 32; x += 3)
      for (int c = 0; c < 3; ++c)
        ASSERT_NEAR(input[c][y][x].item<double>(),
                    (picture.at(x, y, c) / 255.0 -
                     options.normalisation->mean[static_cast<std::size_t>(c)]) /
                        options.normalisation->deviation[static_cast<std::size_t>(c)],
                    1e-5);
}

TEST(ImageFiles, OfDifferentSizesNeedOne) {
  const Tree tree;
  EXPECT_THAT(message_of([&] { tree.open({}); }),
              AllOf(HasSubstr("are of different sizes"), HasSubstr("00.jpg has 40 x 60"),
                    HasSubstr("--image-size")));
}

TEST(ImageFiles, AreTestedAsTorchvisionDoes) {
  const Tree tree;
  DatasetOptions options;
  options.image_size = 28;  // of the shorter side resized to 32
  options.normalisation = {{0, 0, 0}, {1, 1, 1}};
  const auto image = tensor_of(image::smooth(48, 40, 100)).unsqueeze(0) / 255;
  const auto expected =
      torch::_upsample_bilinear2d_aa(image, {32, 38}, false).narrow(2, 2, 28).narrow(3, 5, 28);
  const std::vector<std::int64_t> first{0};
  EXPECT_TRUE(tree.open(options, Split::test)->get(first).input.allclose(expected, 1e-4, 1e-4));
}

TEST(ImageFiles, AreNormalisedAsTheTrainingImagesSay) {
  const Tree tree;
  DatasetOptions options;
  options.image_size = 32;
  const auto train = tree.open(options), test = tree.open(options, Split::test);
  const torch::Tensor input = train->get(all_of(*train)).input;
  for (int c = 0; c < 3; ++c) {
    EXPECT_NEAR(input.select(1, c).mean().item<double>(), 0, 1e-4);
    EXPECT_NEAR(input.select(1, c).std().item<double>(), 1, 1e-3);
  }
  EXPECT_EQ(test->normalisation(), train->normalisation());
  EXPECT_THAT(train->note(), HasSubstr("measured on 12 of 12 training images"));
  options.normalisation = train->normalisation();
  EXPECT_EQ(tree.open(options)->note(), "");
}

// Who only opens the test set, to look at it, does not go through all training files.
TEST(ImageFiles, ToTrainOnAreLookedForWhenTheyAreNeeded) {
  const Tree tree;
  DatasetOptions options;
  options.image_size = 32;
  const auto test = tree.open(options, Split::test);
  tree.copy("train/a/00.jpg", "train/a/12.jpg");
  EXPECT_THAT(test->note(), HasSubstr("measured on 13 of 13 training images"));
}

TEST(ImageFiles, DependOnSeedEpochAndIndexAlone) {
  const Tree tree;
  DatasetOptions options = augmented();
  const auto all = tree.open(options);
  const Batch batch = all->get(all_of(*all), 3);
  for (const int threads : {1, 2, 5}) {
    options.threads = threads;
    const auto again = tree.open(options);
    for (const std::int64_t index : {7, 0, 11}) {  // as a rank with other samples asks
      const std::vector<std::int64_t> some{index, 2};
      const Batch part = again->get(some, 3);
      EXPECT_TRUE(part.input[0].equal(batch.input[index])) << threads;
      EXPECT_TRUE(part.target[0].equal(batch.target[index]));
    }
  }
  EXPECT_FALSE(all->get(all_of(*all), 4).input.equal(batch.input));
  options.seed = 6;
  EXPECT_FALSE(tree.open(options)->get(all_of(*all), 3).input.equal(batch.input));
}

TEST(ImageFiles, AreAugmentedForTrainingAlone) {
  const Tree tree;
  DatasetOptions options = augmented();
  const auto test = tree.open(options, Split::test);
  const auto some = all_of(*test);
  options.augment = {};
  EXPECT_TRUE(test->get(some, 2).input.equal(tree.open(options, Split::test)->get(some).input));
}

TEST(ImageFiles, OfShardsAreThoseOfTheFolder) {
  const Tree tree;
  TemporaryFolder shards;
  const auto pack = [&](const char* split, const char* to) {
    std::vector<image::Member> members;
    for (const char* name : {"a", "b"})
      for (int i = 0; i < 12; ++i)
        for (const char* ending : {"{}/{}/{:02}.jpg", "{}/{}/{}.png"}) {
          const fs::path path =
              tree.folder.path() / fmt::format(fmt::runtime(ending), split, name, i);
          if (!fs::exists(path)) continue;
          std::ifstream in(path, std::ios::binary);
          const Bytes bytes{std::istreambuf_iterator<char>(in), {}};
          members.push_back({fmt::format("{}{:02}{}", name, i, path.extension().string()), bytes});
          members.push_back({fmt::format("{}{:02}.cls", name, i),
                             {static_cast<std::uint8_t>('0' + (name[0] - 'a'))}});
        }
    shards.write(to, image::tar(members));
  };
  pack("train", "train-000.tar");
  pack("val", "val-000.tar");
  for (const Split split : {Split::train, Split::test}) {
    const auto folder = tree.open(augmented(), split);
    const auto packed = open_dataset("shards:" + shards.path().string(), split, augmented());
    ASSERT_EQ(packed->size(), folder->size());
    const Batch a = folder->get(all_of(*folder), 1), b = packed->get(all_of(*folder), 1);
    EXPECT_TRUE(a.input.equal(b.input));
    EXPECT_TRUE(a.target.equal(b.target));
  }
  EXPECT_EQ(open_dataset(shards.path(), Split::train, augmented())->size(), 12u);
}

// A sample keeps what is drawn for it, so that it is what it would be with a copy of the next file.
TEST(ImageFiles, ThatAreBrokenAreReplacedByTheNext) {
  const Tree tree, copied;
  DatasetOptions options = augmented();
  options.normalisation = tree.open(options)->normalisation();
  Bytes cut = image::jpeg(image::smooth(60, 60, 1));
  cut.resize(cut.size() / 2);
  tree.put("train/a/02.jpg", cut);        // index 1: the next is broken, too
  tree.put("train/a/04.jpg", {});         // index 2
  tree.put("train/b/11.jpg", {1, 2, 3});  // index 11: the first follows the last
  copied.copy("train/a/06.jpg", "train/a/02.jpg");
  copied.copy("train/a/06.jpg", "train/a/04.jpg");
  copied.copy("train/a/00.jpg", "train/b/11.jpg");
  const auto broken = tree.open(options), whole = copied.open(options);
  const Batch batch = broken->get(all_of(*broken), 2), expected = whole->get(all_of(*whole), 2);
  EXPECT_THAT(broken->broken(), ElementsAre(1, 2, 11));
  EXPECT_THAT(whole->broken(), IsEmpty());
  EXPECT_TRUE(batch.input.equal(expected.input));
  EXPECT_TRUE(batch.target.equal(torch::tensor({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0})));
  const std::vector<std::int64_t> one{1};
  EXPECT_TRUE(broken->get(one, 2).input[0].equal(batch.input[1]));
  EXPECT_EQ(broken->broken().size(), 3u);
}

TEST(ImageFiles, ThatAreAllBrokenEndTheRun) {
  const Tree tree(true);
  DatasetOptions given;
  given.normalisation = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
  const auto dataset = tree.open(given), measured = tree.open({});
  for (const auto& file : fs::recursive_directory_iterator(tree.folder.path() / "train"))
    if (file.is_regular_file()) fs::resize_file(file.path(), 300);
  const std::vector<std::int64_t> one{1};
  EXPECT_THAT(message_of([&] { dataset->get(one); }),
              AllOf(HasSubstr("12 images in a row are broken; the last: "), HasSubstr("a/00.jpg")));
  EXPECT_THAT(message_of([&] { measured->get(one); }), HasSubstr("can be decoded"));
  EXPECT_THAT(message_of([&] { tree.open({}); }), HasSubstr("none of the images"));
}

TEST(ImageFiles, ServeManyThreads) {
  const Tree tree;
  const auto dataset = tree.open(augmented());
  const auto all = all_of(*dataset);
  const torch::Tensor expected = dataset->get(all, 1).input;
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) equal += dataset->get(all, 1).input.equal(expected);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 20);
}

TEST(ImageFiles, RefuseWhatTheyCannotDo) {
  const Tree tree;
  DatasetOptions options = augmented();
  options.augment.shift = 24;
  EXPECT_THAT(message_of([&] { tree.open(options); }), HasSubstr("cannot be shifted by up to 24"));
  options = augmented();
  options.augment.cutout = 25;
  EXPECT_THAT(message_of([&] { tree.open(options); }), HasSubstr("Lower augment-cutout"));
  options = augmented();
  options.normalisation = {{0.5}, {0.5}};
  EXPECT_THAT(message_of([&] { tree.open(options); }), HasSubstr("as images of 1"));
  options = {};
  options.image_size = 24;
  EXPECT_THAT(message_of([&] { open_dataset("synthetic", Split::train, options); }),
              HasSubstr("Leave image-size out"));
  options = {};
  options.augment.crop = 0.5;
  EXPECT_THAT(message_of([&] { open_dataset("synthetic", Split::train, options); }),
              HasSubstr("Leave augment-crop out"));
}

}  // namespace
}  // namespace asup::data
