// Bytes of a file, by place. Safe from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace asup::data::image {

// A file that is open for reading; several threads may read at once.
class OpenFile {
 public:
  // Throws std::system_error where it cannot be opened, or is no plain file.
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size() const { return size_; }

  // Returns how much there was: less than asked for at the file's end alone. Throws
  // std::system_error.
  std::size_t read(std::uint64_t offset, std::span<std::uint8_t> out) const;

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace asup::data::image
