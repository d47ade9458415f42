// What a fuzz target gets: any bytes, taken apart into numbers and pieces. Bytes that are not there
// are zeros, so that every input says something.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "asup/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace asup::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : left_(std::as_bytes(std::span(data, size))) {}

  bool empty() const { return left_.empty(); }

  template <typename T>
  T number() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const auto bytes = take(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // From 0 to count - 1, of one byte.
  int below(int count) { return number<std::uint8_t>() % count; }

  // Its length in two bytes comes before it.
  std::span<const std::byte> piece() { return take(number<std::uint16_t>()); }
  std::string text_piece() {
    const auto bytes = piece();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> rest() { return take(left_.size()); }
  std::string text() {
    const auto bytes = rest();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> take(std::size_t bytes) {
    const auto taken = left_.first(std::min(bytes, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

  std::span<const std::byte> left_;
};

// Input may be refused, by a BadInput and by nothing else.
template <typename Action>
void may_refuse(const Action& action) {
  try {
    action();
  } catch (const BadInput&) {
  }
}

}  // namespace asup::fuzz
