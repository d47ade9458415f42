#include "asup/data/image/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "asup/base/error.h"

namespace asup::data::image {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kLongestName = 1 << 16;  // bytes of an extended header

using Block = std::array<std::uint8_t, kBlock>;

std::string_view text_at(const Block& block, std::size_t offset, std::size_t size) {
  const char* begin = reinterpret_cast<const char*>(block.data()) + offset;
  return {begin, ::strnlen(begin, size)};
}

// Octal, or of large members (GNU) big-endian bytes after one of 0x80.
std::optional<std::uint64_t> number_at(const Block& block, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  if (block[offset] == 0x80) {
    for (std::size_t i = offset + size - 8; i < offset + size; ++i) value = value << 8 | block[i];
    return value;
  }
  bool any = false;
  for (std::size_t i = offset; i < offset + size; ++i) {
    const char c = static_cast<char>(block[i]);
    if (c >= '0' && c <= '7') {
      value = value * 8 + static_cast<std::uint64_t>(c - '0');
      any = true;
    } else if (c != ' ' && c != '\0') {
      return std::nullopt;
    } else if (any) {
      break;
    }
  }
  return any ? std::optional(value) : std::nullopt;
}

// The sum of the header's bytes, those of the sum itself taken as spaces.
bool has_right_sum(const Block& block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) sum += i >= 148 && i < 156 ? ' ' : block[i];
  return number_at(block, 148, 8) == sum;
}

bool is_zero(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](std::uint8_t byte) { return byte == 0; });
}

class TarReader {
 public:
  TarReader(const OpenFile& file, const std::filesystem::path& path) : file_(file), path_(path) {}

  void read(const std::function<void(const TarMember&)>& take) {
    Block header;
    while (next_header(header)) {
      const char type = static_cast<char>(header[156]);
      TarMember member = member_of(header);
      if (type == 'L') {
        name_ = text_of(member).c_str();  // to its first zero
      } else if (type == 'x') {
        read_pax(text_of(member));
      } else {
        if (type == '0' || type == '\0' || type == '7') take(member);
        name_.reset();
        size_.reset();
      }
      at_ = member.offset + (member.size + kBlock - 1) / kBlock * kBlock;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BadInput(fmt::format("{}: {}; get it again", path_.string(), what));
  }

  // False at the blocks of zeros that end an archive.
  bool next_header(Block& header) {
    if (file_.read(at_, header) < kBlock)
      fail(at_ == 0 ? "is no tar archive: it is shorter than a header"
                    : fmt::format("is cut short: nothing ends the archive after {} bytes", at_));
    if (is_zero(header)) return false;
    if (!has_right_sum(header))
      fail(at_ == 0 ? "is no tar archive, plain as shards must be (not compressed), or is damaged"
                    : fmt::format("is damaged: there is no header at byte {}", at_));
    return true;
  }

  TarMember member_of(const Block& header) const {
    TarMember member;
    const std::string_view name = text_at(header, 0, 100), prefix = text_at(header, 345, 155);
    const bool has_prefix = text_at(header, 257, 6) == "ustar" && !prefix.empty();
    member.name = name_        ? *name_
                  : has_prefix ? fmt::format("{}/{}", prefix, name)
                               : std::string(name);
    const auto size = size_ ? size_ : number_at(header, 124, 12);
    if (!size) fail(fmt::format("is damaged: the size of {} is no number", member.name));
    member.offset = at_ + kBlock;
    member.size = *size;
    if (member.size > file_.size() || member.offset > file_.size() - member.size)
      fail(fmt::format("is cut short: {} should have {} bytes, and there are {}", member.name,
                       member.size,
                       file_.size() > member.offset ? file_.size() - member.offset : 0));
    return member;
  }

  std::string text_of(const TarMember& member) const {
    if (member.size > kLongestName)
      fail(fmt::format("is damaged: a name of {} bytes", member.size));
    std::string text(member.size, '\0');
    file_.read(member.offset, {reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }

  // Records "LENGTH KEY=VALUE\n", the length being that of the whole.
  void read_pax(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(end - text.data());
      if (error != std::errc() || length <= digits + 1 || length > text.size())
        fail("is damaged: an extended header makes no sense");
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      const auto equals = std::min(record.find('='), record.size() - 1);
      const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
      if (key == "path") name_ = std::string(value);
      if (key == "size") {
        std::uint64_t size = 0;
        const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
        if (wrong != std::errc() || stop != value.data() + value.size())
          fail(fmt::format("is damaged: an extended header has '{}' for a size", value));
        size_ = size;
      }
      text.remove_prefix(length);
    }
  }

  const OpenFile& file_;
  const std::filesystem::path path_;
  std::uint64_t at_ = 0;
  // What extended headers say of the member that follows.
  std::optional<std::string> name_;
  std::optional<std::uint64_t> size_;
};

}  // namespace

void read_tar(const OpenFile& file, const std::filesystem::path& path,
              const std::function<void(const TarMember&)>& take) {
  TarReader(file, path).read(take);
}

}  // namespace asup::data::image
