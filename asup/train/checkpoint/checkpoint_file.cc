#include "asup/train/checkpoint/checkpoint_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/train/checkpoint/sha256.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic = "ASUPCKPT";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHash = 64;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out += static_cast<char>(value >> (8 * i) & 0xff);
  }
}

template <typename T>
T get(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

// Takes pieces off the front of a file's bytes, and says of what is missing what it was.
class Reader {
 public:
  Reader(const std::string& path, std::string_view bytes) : path_(path), rest_(bytes) {}

  std::string_view take(std::uint64_t count, std::string_view what) {
    require(count <= rest_.size(), "{}: is cut short: {} of {} bytes is not all there", path_, what,
            count);
    const auto piece = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return piece;
  }

  void check_hash(std::string_view piece, std::string_view hash, std::string_view what) const {
    require(sha256_hex(bytes_of(piece)) == hash, "{}: is corrupt: {} is not what was written",
            path_, what);
  }

  bool empty() const { return rest_.empty(); }

 private:
  const std::string& path_;
  std::string_view rest_;
};

Json read_header(Reader& reader, const std::string& path) {
  require(reader.take(kMagic.size(), "its beginning") == kMagic, "{}: is no checkpoint of asup",
          path);
  const auto version = get<std::uint32_t>(reader.take(4, "its version"));
  require(version == kVersion, "{}: is a checkpoint of format {}; this asup reads format {}", path,
          version, kVersion);
  const auto length = get<std::uint64_t>(reader.take(8, "the header's length"));
  const auto hash = reader.take(kHash, "the header's hash");
  const auto text = reader.take(length, "the header");
  reader.check_hash(text, hash, "the header");
  return Json::parse(text);
}

}  // namespace

bool CheckpointFile::has_section(const std::string& name) const {
  return std::any_of(sections.begin(), sections.end(),
                     [&](const Section& section) { return section.name == name; });
}

const std::string& CheckpointFile::section(const std::string& name) const {
  for (const auto& section : sections) {
    if (section.name == name) return section.bytes;
  }
  throw BadInput(fmt::format("the checkpoint has no section '{}'", name));
}

void write_checkpoint_file(const std::string& path, CheckpointFile file) {
  file.header["sections"] = Json::array();
  for (const auto& [name, bytes] : file.sections) {
    file.header["sections"].push_back(
        {{"name", name}, {"bytes", bytes.size()}, {"sha256", sha256_hex(bytes_of(bytes))}});
  }
  const std::string text = file.header.dump();
  std::string front(kMagic);
  put(front, kVersion);
  put<std::uint64_t>(front, text.size());
  front += sha256_hex(bytes_of(text));

  std::vector<std::span<const std::byte>> parts{bytes_of(front), bytes_of(text)};
  for (const auto& section : file.sections) parts.push_back(bytes_of(section.bytes));
  write_atomically(path, parts);
}

CheckpointFile read_checkpoint_file(const std::string& path) {
  const std::string bytes = read_file(path);
  Reader reader(path, bytes);
  CheckpointFile file;
  file.header = read_header(reader, path);
  for (const auto& entry : file.header.at("sections")) {
    const auto name = entry.at("name").get<std::string>();
    const auto piece = reader.take(entry.at("bytes").get<std::uint64_t>(), name);
    reader.check_hash(piece, entry.at("sha256").get<std::string>(), name);
    file.sections.push_back({name, std::string(piece)});
  }
  require(reader.empty(), "{}: is corrupt: there are bytes after its end", path);
  return file;
}

}  // namespace asup::train
