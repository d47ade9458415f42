// The tokens of a text, each in as few bytes as the vocabulary needs: 1, 2 or 4. Filled by one
// thread; then any may read it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace asup::data {

class TokenBuffer {
 public:
  // Each byte a token.
  explicit TokenBuffer(std::string bytes) : width_(1), bytes_(std::move(bytes)) {}
  // None yet. Tokens are below `vocabulary`.
  explicit TokenBuffer(std::int64_t vocabulary)
      : width_(vocabulary <= 1 << 8    ? 1
               : vocabulary <= 1 << 16 ? 2
                                       : 4) {}

  std::size_t size() const { return bytes_.size() / width_; }

  void push_back(std::int64_t token) {
    const auto value = static_cast<std::uint32_t>(token);
    if (width_ == 1) return bytes_.push_back(static_cast<char>(value));
    if (width_ == 4) return append(value);
    append(static_cast<std::uint16_t>(value));
  }

  // needs: begin + count <= size().
  void copy(std::size_t begin, std::size_t count, std::int64_t* to) const {
    if (width_ == 1) return copy_as<std::uint8_t>(begin, count, to);
    if (width_ == 2) return copy_as<std::uint16_t>(begin, count, to);
    copy_as<std::uint32_t>(begin, count, to);
  }

 private:
  template <typename T>
  void append(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  template <typename T>
  void copy_as(std::size_t begin, std::size_t count, std::int64_t* to) const {
    const char* from = bytes_.data() + begin * sizeof(T);
    for (T value; count > 0; --count, from += sizeof(T)) {
      std::memcpy(&value, from, sizeof(T));
      *to++ = value;
    }
  }

  const std::size_t width_;
  std::string bytes_;
};

}  // namespace asup::data
