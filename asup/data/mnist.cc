#include "asup/data/mnist.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "asup/base/error.h"
#include "asup/data/byte_source.h"

namespace asup::data {
namespace {

std::string prefix_of(Split split) { return split == Split::train ? "train" : "t10k"; }

std::string images_file(Split split) { return prefix_of(split) + "-images-idx3-ubyte"; }
std::string labels_file(Split split) { return prefix_of(split) + "-labels-idx1-ubyte"; }

struct Idx {
  std::vector<std::size_t> dimensions;
  std::vector<std::uint8_t> bytes;
};

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
         std::uint32_t{bytes[2]} << 8 | std::uint32_t{bytes[3]};
}

void check_magic(const ByteSource& source, const std::vector<std::uint8_t>& magic, int rank) {
  if (magic[0] == 0 && magic[1] == 0 && magic[2] == 8 && magic[3] == rank) return;
  source.fail(
      fmt::format("begins with {:02x} {:02x} {:02x} {:02x}, where an idx file of bytes with {} "
                  "dimension{} begins with 00 00 08 {:02x}: it is corrupt or another kind of file",
                  magic[0], magic[1], magic[2], magic[3], rank, rank == 1 ? "" : "s", rank));
}

// The number of bytes the dimensions promise, doubted before memory is taken for it.
std::size_t promised(const ByteSource& source, const std::vector<std::size_t>& dimensions) {
  std::size_t total = 1;
  for (const std::size_t dimension : dimensions) {
    if (dimension == 0) source.fail("its header says that it is empty; get it again");
    if (total > source.capacity() / dimension)
      source.fail(fmt::format(
          "its header promises {} bytes, more than the file can hold: it is cut short or corrupt; "
          "get it again",
          fmt::join(dimensions, " x ")));
    total *= dimension;
  }
  return total;
}

Idx read_idx(const std::filesystem::path& folder, const std::string& file, int rank) {
  const auto path = find_file(folder, file);
  require(!path.empty(), "{} holds neither {} nor {}.gz; put the missing file there",
          folder.string(), file, file);
  ByteSource source(path);
  check_magic(source, source.take(4, "header"), rank);
  const auto header = source.take(4 * static_cast<std::size_t>(rank), "header");
  Idx idx;
  for (int i = 0; i < rank; ++i) idx.dimensions.push_back(big_endian(header.data() + 4 * i));
  idx.bytes = source.take(promised(source, idx.dimensions), rank == 1 ? "labels" : "images");
  source.expect_end();
  return idx;
}

void check_labels(const std::filesystem::path& folder, Split split, const Idx& labels,
                  std::size_t images, int classes) {
  const auto path = find_file(folder, labels_file(split)).string();
  require(labels.bytes.size() == images,
          "{}: holds {} labels for the {} images of {}; the two files do not belong together", path,
          labels.bytes.size(), images, images_file(split));
  const auto wrong = std::find_if(labels.bytes.begin(), labels.bytes.end(),
                                  [=](std::uint8_t label) { return label >= classes; });
  require(wrong == labels.bytes.end(),
          "{}: label {} of item {} is not below {}, the number of classes; the file is corrupt, or "
          "the number of classes must be raised",
          path, *wrong, wrong - labels.bytes.begin(), classes);
}

}  // namespace

bool is_mnist_folder(const std::filesystem::path& folder) {
  return !find_file(folder, images_file(Split::train)).empty() ||
         !find_file(folder, images_file(Split::test)).empty();
}

Images read_mnist(const std::filesystem::path& folder, Split split, int classes) {
  require(classes >= 1 && classes <= 256, "an MNIST-format folder has 1 to 256 classes, not {}",
          classes);
  Idx labels = read_idx(folder, labels_file(split), 1);
  Idx images = read_idx(folder, images_file(split), 3);
  check_labels(folder, split, labels, images.dimensions[0], classes);
  return {1,
          static_cast<std::int64_t>(images.dimensions[1]),
          static_cast<std::int64_t>(images.dimensions[2]),
          std::move(images.bytes),
          std::move(labels.bytes),
          classes};
}

}  // namespace asup::data
