#include "asup/data/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Records whose pixels hold their channel, moved by the label.
Bytes records(const std::vector<std::uint8_t>& labels) {
  Bytes bytes;
  for (const std::uint8_t label : labels) {
    bytes.push_back(label);
    for (int channel = 0; channel < 3; ++channel)
      bytes.insert(bytes.end(), 32 * 32, static_cast<std::uint8_t>(100 * channel + label));
  }
  return bytes;
}

class Cifar : public ::testing::Test {
 protected:
  Cifar() {
    for (int i = 1; i <= 5; ++i)
      folder_.write("data_batch_" + std::to_string(i) + ".bin",
                    records({static_cast<std::uint8_t>(i), 9}));
    folder_.write("test_batch.bin", records({0, 7, 3}));
  }

  std::string message() {
    return message_of([this] { read_cifar10(folder_.path(), Split::train); });
  }

  TemporaryFolder folder_;
};

TEST_F(Cifar, ReadsAllBatchesInOrder) {
  const Images train = read_cifar10(folder_.path(), Split::train);
  EXPECT_EQ(train.labels, (Bytes{1, 9, 2, 9, 3, 9, 4, 9, 5, 9}));
  EXPECT_EQ(train.pixels.size(), 10u * 3072);
  EXPECT_EQ(train.pixels[2 * 3072], 2);        // red of the third
  EXPECT_EQ(train.pixels[3 * 3072 - 1], 202);  // its blue
  EXPECT_EQ(read_cifar10(folder_.path(), Split::test).labels, (Bytes{0, 7, 3}));
}

TEST_F(Cifar, FindsTheArchivesFolder) {
  TemporaryFolder outer;
  EXPECT_TRUE(find_cifar10(outer.path()).empty());
  std::filesystem::create_directory(outer.path() / "cifar-10-batches-bin");
  std::filesystem::copy(folder_.path(), outer.path() / "cifar-10-batches-bin");
  EXPECT_EQ(find_cifar10(outer.path()), outer.path() / "cifar-10-batches-bin");
  EXPECT_EQ(find_cifar10(folder_.path()), folder_.path());
}

TEST_F(Cifar, ReadsGzip) {
  std::filesystem::remove(folder_.path() / "test_batch.bin");
  folder_.write("test_batch.bin.gz", gzip(records({0, 7, 3})));
  EXPECT_EQ(read_cifar10(folder_.path(), Split::test).labels, (Bytes{0, 7, 3}));
}

TEST_F(Cifar, NamesWhatIsWrong) {
  Bytes cut = records({1, 2});
  cut.pop_back();
  folder_.write("data_batch_3.bin", cut);
  EXPECT_THAT(message(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("cut short")));

  folder_.write("data_batch_3.bin", records({1, 10}));
  EXPECT_THAT(message(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("label is 10")));

  folder_.write("data_batch_3.bin", {});
  EXPECT_THAT(message(), AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("empty")));

  std::filesystem::remove(folder_.path() / "data_batch_3.bin");
  EXPECT_THAT(message(), AllOf(HasSubstr(folder_.path().string()), HasSubstr("data_batch_3.bin")));
}

}  // namespace
}  // namespace asup::data
