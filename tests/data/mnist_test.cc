#include "asup/data/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/data/files.h"

namespace asup::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kImages = "train-images-idx3-ubyte";
constexpr const char* kLabels = "train-labels-idx1-ubyte";

// Four images of 2 x 3 pixels, 0 … 23, with labels 3 1 0 9.
class Mnist : public ::testing::Test {
 protected:
  Mnist() {
    pixels_.resize(24);
    std::iota(pixels_.begin(), pixels_.end(), std::uint8_t{0});
    folder_.write(kImages, idx({4, 2, 3}, pixels_));
    folder_.write(kLabels, idx({4}, labels_));
  }

  Images read(int classes = 10) { return read_mnist(folder_.path(), Split::train, classes); }
  std::string message() {
    return message_of([this] { read(); });
  }

  TemporaryFolder folder_;
  Bytes pixels_;
  const Bytes labels_{3, 1, 0, 9};
};

TEST_F(Mnist, ReadsWhatWasWritten) {
  const Images images = read();
  EXPECT_EQ(images.count(), 4u);
  EXPECT_EQ(images.channels, 1);
  EXPECT_EQ(images.height, 2);
  EXPECT_EQ(images.width, 3);
  EXPECT_EQ(images.pixels, pixels_);
  EXPECT_EQ(images.labels, labels_);
}

TEST_F(Mnist, ReadsGzipWhereThereIsNoPlainFile) {
  std::filesystem::remove(folder_.path() / kImages);
  folder_.write(std::string(kImages) + ".gz", gzip(idx({4, 2, 3}, pixels_)));
  EXPECT_EQ(read().pixels, pixels_);
}

TEST_F(Mnist, NamesAMissingFile) {
  std::filesystem::remove(folder_.path() / kLabels);
  EXPECT_THAT(message(), AllOf(HasSubstr(folder_.path().string()), HasSubstr(kLabels),
                               HasSubstr(std::string(kLabels) + ".gz")));
  EXPECT_THAT(message_of([this] { read_mnist(folder_.path(), Split::test, 10); }),
              HasSubstr("t10k-labels-idx1-ubyte"));
}

TEST_F(Mnist, RefusesAWrongMagicNumber) {
  folder_.write(kImages, idx({4}, labels_));  // labels where images should be
  EXPECT_THAT(message(), AllOf(HasSubstr(kImages), HasSubstr("00 00 08 01"),
                               HasSubstr("00 00 08 03"), HasSubstr("another kind")));
  folder_.write(kImages, {'<', 'h', 't', 'm', 'l', '>'});
  EXPECT_THAT(message(), HasSubstr("3c 68 74 6d"));
}

TEST_F(Mnist, RefusesShortFiles) {
  const Bytes whole = idx({4, 2, 3}, pixels_);
  for (std::size_t kept = 0; kept < whole.size(); ++kept) {
    const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
    folder_.write(kImages, part);
    ASSERT_THAT(message(), AllOf(HasSubstr(kImages), HasSubstr("cut short"))) << kept;
    folder_.write(kImages, gzip(part));
    ASSERT_THAT(message(), AllOf(HasSubstr(kImages), HasSubstr("cut short"))) << kept;
  }
}

TEST_F(Mnist, RefusesTrailingBytes) {
  Bytes longer = idx({4, 2, 3}, pixels_);
  longer.push_back(0);
  folder_.write(kImages, longer);
  EXPECT_THAT(message(), AllOf(HasSubstr(kImages), HasSubstr("goes on after")));
}

// 2^96 and 2^32 x 28 x 28 bytes: the message must come before the memory.
TEST_F(Mnist, DoubtsHugeSizes) {
  for (const auto& sizes : {std::vector<std::uint32_t>{0xffffffff, 0xffffffff, 0xffffffff},
                            std::vector<std::uint32_t>{0xffffffff, 28, 28},
                            std::vector<std::uint32_t>{1, 0x80000000, 0x80000000}}) {
    folder_.write(kImages, idx(sizes, pixels_));
    EXPECT_THAT(message(), AllOf(HasSubstr(kImages), HasSubstr("more than the file can hold")));
    folder_.write(kImages, gzip(idx(sizes, pixels_)));
    EXPECT_THAT(message(), AllOf(HasSubstr(kImages), HasSubstr("more than the file can hold")));
  }
}

TEST_F(Mnist, RefusesEmptySets) {
  folder_.write(kLabels, idx({0}, {}));
  folder_.write(kImages, idx({0, 28, 28}, {}));
  EXPECT_THAT(message(), HasSubstr("empty"));
}

TEST_F(Mnist, RefusesLabelsOutOfRange) {
  folder_.write(kLabels, idx({4}, {3, 1, 10, 9}));
  EXPECT_THAT(message(), AllOf(HasSubstr(kLabels), HasSubstr("label 10 of item 2"),
                               HasSubstr("number of classes")));
  EXPECT_EQ(read(47).classes, 47);
  EXPECT_THAT(message_of([this] { read(0); }), HasSubstr("1 to 256 classes"));
}

TEST_F(Mnist, RefusesAnotherNumberOfLabels) {
  folder_.write(kLabels, idx({3}, {3, 1, 0}));
  EXPECT_THAT(message(), AllOf(HasSubstr("3 labels"), HasSubstr("4 images")));
}

TEST_F(Mnist, MeasuresNormalisation) {
  folder_.write(kImages, idx({4, 1, 2}, {0, 255, 0, 255, 0, 255, 0, 255}));
  const Normalisation normalisation = measure_normalisation(read());
  EXPECT_DOUBLE_EQ(normalisation.mean[0], 0.5);
  EXPECT_DOUBLE_EQ(normalisation.deviation[0], 0.5);
}

}  // namespace
}  // namespace asup::data
