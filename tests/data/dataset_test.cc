#include "asup/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "asup/data/mnist.h"
#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDebian = "/usr/share/datasets/fashion-mnist";

TEST(FashionMnist, IsTheRealOne) {
  const auto train = open_dataset("fashion-mnist", Split::train);
  const auto test = open_dataset("fashion-mnist", Split::test);
  EXPECT_EQ(train->size(), 60000u);
  EXPECT_EQ(test->size(), 10000u);
  EXPECT_EQ(train->input_shape(), (std::vector<std::int64_t>{1, 28, 28}));
  EXPECT_EQ(train->classes(), 10);
  EXPECT_EQ(train->name(), "fashion-mnist");
  const std::vector<std::int64_t> first{0, 1, 2, 3, 4};
  EXPECT_TRUE(train->get(first).target.equal(torch::tensor({9, 0, 0, 3, 0})));
  EXPECT_TRUE(test->get(first).target.equal(torch::tensor({9, 2, 1, 1, 6})));
}

TEST(FashionMnist, IsNormalisedAndBalanced) {
  const Images images = read_mnist(kDebian, Split::train, 10);
  const Normalisation measured = measure_normalisation(images);
  EXPECT_NEAR(measured.mean[0], 0.2860, 5e-5);
  EXPECT_NEAR(measured.deviation[0], 0.3530, 5e-5);
  std::vector<int> counts(10);
  for (const auto label : images.labels) ++counts[label];
  EXPECT_THAT(counts, ::testing::Each(6000));

  std::vector<std::int64_t> some;
  for (std::int64_t i = 0; i < 60000; i += 30) some.push_back(i);
  const Batch batch = open_dataset("fashion-mnist", Split::train)->get(some);
  EXPECT_NEAR(batch.input.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(batch.input.std().item<double>(), 1, 0.02);
  const std::size_t pixel = 30u * 784 + 300;
  EXPECT_FLOAT_EQ(batch.input.flatten()[784 + 300].item<float>(),
                  static_cast<float>((images.pixels[pixel] / 255.0 - 0.2860) / 0.3530));
}

TEST(FashionMnist, SaysHowToGetItWhereItIsMissing) {
  DatasetOptions options;
  options.fashion_mnist_folder = "/nowhere/at/all";
  EXPECT_THAT(
      message_of([&] { open_dataset("fashion-mnist", Split::train, options); }),
      AllOf(HasSubstr("/nowhere/at/all"), HasSubstr("apt-get install dataset-fashion-mnist"),
            HasSubstr("ASUP_FASHION_MNIST")));
}

TEST(FashionMnist, MayLieElsewhere) {
  TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", idx({1, 28, 28}, Bytes(784, 7)));
  folder.write("train-labels-idx1-ubyte", idx({1}, {4}));
  ::setenv("ASUP_FASHION_MNIST", folder.path().c_str(), 1);
  const auto dataset = open_dataset("fashion-mnist", Split::train);
  ::unsetenv("ASUP_FASHION_MNIST");
  EXPECT_EQ(dataset->size(), 1u);
}

TEST(OpenDataset, TellsFoldersApart) {
  TemporaryFolder mnist, cifar;
  mnist.write("train-images-idx3-ubyte", idx({2, 1, 2}, {0, 255, 0, 255}));
  mnist.write("train-labels-idx1-ubyte", idx({2}, {0, 1}));
  mnist.write("t10k-images-idx3-ubyte", idx({1, 1, 2}, {255, 255}));
  mnist.write("t10k-labels-idx1-ubyte", idx({1}, {1}));
  cifar.write("test_batch.bin", Bytes(3073, 1));

  // Both splits are normalised as the training images say: mean and deviation one half.
  const std::vector<std::int64_t> first{0};
  const auto train = open_dataset(mnist.path(), Split::train);
  EXPECT_TRUE(train->get(first).input.flatten().equal(torch::tensor({-1.f, 1.f})));
  const auto test = open_dataset(mnist.path(), Split::test);
  EXPECT_TRUE(test->get(first).input.flatten().equal(torch::tensor({1.f, 1.f})));
  EXPECT_EQ(test->name(), mnist.path().string());

  const auto photographs = open_dataset(cifar.path(), Split::test);
  EXPECT_EQ(photographs->input_shape(), (std::vector<std::int64_t>{3, 32, 32}));
  const torch::Tensor pixel = photographs->get(first).input[0].select(1, 0).select(1, 0);
  EXPECT_TRUE(
      pixel.allclose((torch::full({3}, 1.0f / 255) - torch::tensor({.4914f, .4822f, .4465f})) /
                     torch::tensor({.2470f, .2435f, .2616f})));
}

TEST(OpenDataset, SaysWhatItUnderstands) {
  EXPECT_THAT(message_of([] { open_dataset("fashon-mnist", Split::train); }),
              AllOf(HasSubstr("fashion-mnist, synthetic"), HasSubstr("MNIST or CIFAR-10"),
                    HasSubstr("of images"), HasSubstr("did you mean 'fashion-mnist'?")));
  EXPECT_THAT(message_of([] { open_dataset("/nowhere/at/all", Split::train); }),
              AllOf(HasSubstr("/nowhere/at/all"), Not(HasSubstr("did you mean"))));
  TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { open_dataset(folder.path(), Split::train); }),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("train-images-idx3-ubyte"),
                    HasSubstr("data_batch_1.bin")));
  const auto file = folder.write("cifar-10-binary.tar.gz", {1, 2, 3});
  EXPECT_THAT(message_of([&] { open_dataset(file, Split::train); }), HasSubstr("is a file"));
}

TEST(OpenDataset, TakesANameForTheDataSetWhateverFoldersAreThere) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "synthetic" / "train" / "cats");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto dataset = open_dataset("synthetic", Split::train);
  std::filesystem::current_path(before);
  EXPECT_EQ(dataset->name(), "synthetic");
}

TEST(OpenDataset, OpensEveryNameItLists) {
  for (const auto& info : datasets())
    EXPECT_GT(open_dataset(info.name, Split::test)->size(), 0u) << info.name;
}

TEST(Dataset, GivesSamplesInTheOrderAskedFor) {
  const auto dataset = open_dataset("synthetic", Split::train);
  const std::vector<std::int64_t> indices{5, 3, 5}, three{3}, none;
  const Batch batch = dataset->get(indices);
  EXPECT_TRUE(batch.input[0].equal(batch.input[2]));
  EXPECT_TRUE(batch.input[1].equal(dataset->get(three).input[0]));
  EXPECT_EQ(dataset->get(none).input.sizes().vec(), (std::vector<std::int64_t>{0, 1, 28, 28}));
}

TEST(Dataset, RefusesIndicesOutOfRange) {
  const auto dataset = open_dataset("synthetic", Split::test);
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1024}}) {
    const std::vector<std::int64_t> indices{0, wrong};
    EXPECT_THROW(dataset->get(indices), Error);
  }
}

TEST(Dataset, ServesManyThreads) {
  const auto dataset = open_dataset("fashion-mnist", Split::test);
  const std::vector<std::int64_t> indices{1, 100, 9999};
  const torch::Tensor expected = dataset->get(indices).input;
  std::vector<std::thread> threads;
  std::atomic<int> equal{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) equal += dataset->get(indices).input.equal(expected);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, 100);
}

}  // namespace
}  // namespace asup::data
