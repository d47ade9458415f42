// Reads a file from front to back, plain or gzip (told by its first bytes, not by its name).
//
// Everything wrong with the file throws BadInput with its path. Used from one thread.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace asup::data {

class ByteSource {
 public:
  explicit ByteSource(std::filesystem::path path);

  // Fills `out`, less only at the end of the data; returns how much. Checks gzip's own checksums.
  std::size_t read(std::span<std::uint8_t> out);

  // Exactly `count` bytes, called `what` in the error where there are fewer. Memory is taken as the
  // bytes arrive.
  std::vector<std::uint8_t> take(std::size_t count, std::string_view what);

  // Throws where data follows.
  void expect_end();

  // The most bytes the file can hold, so that a size it claims can be doubted before it is used.
  std::uint64_t capacity() const;

  [[noreturn]] void fail(std::string_view what) const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct EndInflate {
    void operator()(z_stream* stream) const;
  };

  std::size_t read_file(std::span<std::uint8_t> out);
  std::size_t read_gzip(std::span<std::uint8_t> out);
  bool more_input();  // false at the end of the file
  void inflate_some();

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t file_size_ = 0;
  std::unique_ptr<z_stream, EndInflate> stream_;  // null: the file is plain
  std::vector<std::uint8_t> input_;               // compressed bytes that stream_ works on
  bool between_members_ = false;                  // a gzip member has just ended
};

}  // namespace asup::data
