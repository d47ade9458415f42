#include "asup/data/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace asup::data {
namespace {

constexpr std::uint64_t kHighBits = 0x8080808080808080u;  // set in no byte of ASCII

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

bool continues(std::string_view text, std::size_t at) {
  return at < text.size() && (byte_at(text, at) & 0xc0) == 0x80;
}

// Most text is ASCII, of which eight bytes are looked at in one go.
std::size_t skip_ascii(std::string_view text, std::size_t at) {
  for (std::uint64_t word; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & kHighBits) != 0) break;
  }
  while (at < text.size() && byte_at(text, at) < 0x80) ++at;
  return at;
}

// Bytes of the character that begins here with a byte above ASCII; 0: it is none.
std::size_t length_at(std::string_view text, std::size_t at) {
  const std::uint8_t first = byte_at(text, at);
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (length == 0 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(text, at + i)) return 0;
  const std::uint8_t second = byte_at(text, at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second > 0x9f;
  const bool too_large = first == 0xf4 && second > 0x8f;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::optional<std::size_t> first_bad_character(std::string_view text) {
  for (std::size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const std::size_t length = length_at(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::size_t character_start(std::string_view text, std::size_t at) {
  while (at > 0 && continues(text, at)) --at;
  return at;
}

}  // namespace asup::data
