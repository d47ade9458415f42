#include "asup/data/cifar.h"

#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/data/byte_source.h"

namespace asup::data {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kSide = 32;
constexpr std::size_t kImage = 3 * kSide * kSide;
constexpr std::size_t kRecord = 1 + kImage;

std::vector<std::string> files_of(Split split) {
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

// Appends the record unless the data has ended.
bool append_record(ByteSource& source, Images& images) {
  std::uint8_t record[kRecord];
  const std::size_t got = source.read(record);
  if (got == 0) return false;
  if (got < kRecord)
    source.fail(
        fmt::format("ends {} bytes into a record of {}: the file is cut short, or not in "
                    "CIFAR-10's binary format; get it again",
                    got, kRecord));
  if (record[0] >= kClasses)
    source.fail(
        fmt::format("a record's label is {}, where CIFAR-10's are 0 to {}: the file is "
                    "corrupt, or not in CIFAR-10's binary format; get it again",
                    record[0], kClasses - 1));
  images.labels.push_back(record[0]);
  images.pixels.insert(images.pixels.end(), record + 1, record + kRecord);
  return true;
}

void append_file(const std::filesystem::path& folder, const std::string& file, Images& images) {
  const auto path = find_file(folder, file);
  require(!path.empty(), "{} holds no {}; put the missing file there", folder.string(), file);
  ByteSource source(path);
  const std::size_t before = images.count();
  while (append_record(source, images)) {
  }
  if (images.count() == before) source.fail("is empty; get it again");
}

}  // namespace

std::filesystem::path find_cifar10(const std::filesystem::path& folder) {
  for (const auto& candidate : {folder, folder / "cifar-10-batches-bin"})
    for (const Split split : {Split::train, Split::test})
      if (!find_file(candidate, files_of(split).front()).empty()) return candidate;
  return {};
}

Images read_cifar10(const std::filesystem::path& folder, Split split) {
  Images images{3, kSide, kSide, {}, {}, kClasses};
  for (const auto& file : files_of(split)) append_file(folder, file, images);
  return images;
}

}  // namespace asup::data
