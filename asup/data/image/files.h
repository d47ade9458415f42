// Labelled image files, wherever they lie: in a folder a class, or in tar archives.
//
// Constant after construction: any number of threads may call them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "asup/data/images.h"

namespace asup::data::image {

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30;  // bytes; nothing to be decoded

class Files {
 public:
  virtual ~Files() = default;

  virtual std::size_t size() const = 0;
  virtual int label(std::size_t index) const = 0;
  virtual std::string name(std::size_t index) const = 0;  // for people
  virtual const std::vector<std::string>& classes() const = 0;

  // The file's bytes, into memory that is used again and again. Throws BrokenImage for one that
  // cannot be read.
  virtual void read(std::size_t index, std::vector<std::uint8_t>& bytes) const = 0;
};

// A folder a class: DIR/train/CLASS/….jpg, and DIR/val or DIR/test like it. Classes are numbered by
// their names' order, files by theirs, as torchvision's ImageFolder does. All throw BadInput that
// says what is wrong with the folder, and what to do.
bool is_image_folder(const std::filesystem::path& folder);
std::unique_ptr<Files> open_image_folder(const std::filesystem::path& folder, Split split);

// WebDataset's layout: DIR/train-000000.tar, …, and val-….tar or test-….tar like them, of which
// each sample is an image KEY.jpg and its class, a number, in KEY.cls. Nothing is unpacked.
bool is_shard_folder(const std::filesystem::path& folder);
std::unique_ptr<Files> open_shards(const std::filesystem::path& folder, Split split);

}  // namespace asup::data::image
