// The safetensors format: tensors by name in a file that many tools read.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"__metadata__": {"KEY": "text", …},
//                    "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
//   data      the elements of each tensor, row by row
//
// Functions on values; an object is used from one thread.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/sync/model/tensors.h"

namespace asup::checkpoint {

using Metadata = std::map<std::string, std::string>;

// "F32". Throws Error for a type that the format does not have, BadInput for such a name.
std::string dtype_name(torch::ScalarType type);
torch::ScalarType type_of_dtype(const std::string& name);

// Of a shape that came from outside: nothing where a side is negative or the product too large.
std::optional<std::uint64_t> bytes_of(torch::ScalarType type,
                                      const std::vector<std::int64_t>& shape);

// A tensor's elements, row by row.
class PlainElements {
 public:
  explicit PlainElements(const torch::Tensor& tensor);
  std::span<const std::byte> bytes() const;

 private:
  torch::Tensor plain_;
};

// A file in memory: its pieces, one after the other. The tensors stay as they are meanwhile.
class SafetensorsImage {
 public:
  explicit SafetensorsImage(std::span<const sync::NamedTensor> tensors,
                            const Metadata& metadata = {});

  std::vector<std::span<const std::byte>> pieces() const;
  std::string text() const;

 private:
  std::string front_;
  std::vector<PlainElements> elements_;
};

class SafetensorsFile {
 public:
  // Reads the header. Throws BadInput, with the path, for a file that is not of this format.
  explicit SafetensorsFile(const std::string& path);

  const Metadata& metadata() const { return metadata_; }
  bool has(const std::string& name) const { return entries_.contains(name); }
  std::vector<std::string> names() const;
  // Throws BadInput where there is no such tensor, or it cannot be read.
  torch::Tensor read(const std::string& name);
  // Of a file in memory.
  static std::map<std::string, torch::Tensor> read_all(std::string_view text);

 private:
  struct Entry {
    torch::ScalarType type{};
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  // of its elements in the data
    std::uint64_t bytes = 0;
  };
  using Entries = std::map<std::string, Entry>;
  static Entries parse(std::string_view header, std::uint64_t data_bytes);

  const std::string path_;
  std::ifstream file_;
  std::uint64_t data_ = 0;  // where it begins
  Metadata metadata_;
  Entries entries_;
};

}  // namespace asup::checkpoint
