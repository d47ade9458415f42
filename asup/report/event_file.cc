#include "asup/report/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "asup/base/error.h"

namespace asup::report {
namespace {

namespace fs = std::filesystem;

// Fields of an Event, of a Summary in it, and of a value there.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2, kImage = 4;

constexpr std::string_view kPrefix = "events.out.tfevents.";  // by which TensorBoard knows them

template <typename Unsigned>
void put_little_endian(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof value; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

// A message of protocol buffers: https://protobuf.dev/programming-guides/encoding
class Message {
 public:
  Message& number(int field, std::int64_t value) {
    put_varint(tag(field, 0));
    put_varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& real(int field, double value) {
    put_varint(tag(field, 1));
    put_little_endian(bytes_, std::bit_cast<std::uint64_t>(value));
    return *this;
  }
  Message& single(int field, float value) {
    put_varint(tag(field, 5));
    put_little_endian(bytes_, std::bit_cast<std::uint32_t>(value));
    return *this;
  }
  Message& text(int field, std::string_view value) {  // or a message
    put_varint(tag(field, 2));
    put_varint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  static std::uint64_t tag(int field, unsigned type) {
    return static_cast<std::uint64_t>(field) << 3 | type;
  }
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78U : 0);
    table[byte] = crc;
  }
  return table;
}

// As records have it, so that a checksum of data that hold checksums stays a good one.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// None in a folder that cannot be read: it cannot be written either.
std::vector<fs::path> event_files_in(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    if (entry.path().filename().string().starts_with(kPrefix)) found.push_back(entry.path());
  return found;
}

// Files are read in the order of their names, which begin with the time: of two that are made in
// one second, or of one host whose clock was set back, the later must have the later time.
std::int64_t time_after_others(const std::string& folder) {
  auto time = static_cast<std::int64_t>(unix_seconds());
  for (const fs::path& path : event_files_in(folder)) {
    const std::string name = path.filename().string();
    std::int64_t other = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other);
    time = std::max(time, other + 1);
  }
  return time;
}

std::string new_path(const std::string& folder) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}/{}{:010}.{}.{}", folder, kPrefix, time_after_others(folder), host.data(),
                     ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = make_crc_table();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(const std::string& folder, std::int64_t first_step)
    : path_(new_path(folder)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666)) {
  constexpr int kStatus = 1, kStart = 1;
  if (!fd_) fail(errno);
  write_event(0, Message().text(kFileVersion, "brain.Event:2").bytes());
  write_event(first_step,
              Message().text(kSessionLog, Message().number(kStatus, kStart).bytes()).bytes());
}

void EventFile::add(std::int64_t step, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar& scalar : scalars)
    summary.text(kValue, Message()
                             .text(kTag, scalar.tag)
                             .single(kSimpleValue, static_cast<float>(scalar.value))
                             .bytes());
  write_event(step, Message().text(kSummary, summary.bytes()).bytes());
}

void EventFile::add(std::int64_t step, std::string_view tag, const Picture& picture) {
  constexpr int kHeight = 1, kWidth = 2, kColorSpace = 3, kEncoded = 4;
  Message image;
  image.number(kHeight, picture.height).number(kWidth, picture.width);
  image.number(kColorSpace, picture.channels).text(kEncoded, picture.png);
  const Message value = Message().text(kTag, tag).text(kImage, image.bytes());
  write_event(step,
              Message().text(kSummary, Message().text(kValue, value.bytes()).bytes()).bytes());
}

void EventFile::write_event(std::int64_t step, std::string_view fields) {
  Message event;
  event.real(kWallTime, unix_seconds()).number(kStep, step);
  write_record(event.bytes() + std::string(fields));
}

// In one write: a reader may be there at any time.
void EventFile::write_record(std::string_view event) {
  std::string record;
  put_little_endian(record, static_cast<std::uint64_t>(event.size()));
  put_little_endian(record, masked_crc(record));
  record += event;
  put_little_endian(record, masked_crc(event));
  const ssize_t written = ::write(fd_.get(), record.data(), record.size());
  if (written < 0) fail(errno);
  if (static_cast<std::size_t>(written) < record.size()) fail(ENOSPC);
}

void EventFile::fail(int error) const {
  throw Error(fmt::format("{}: cannot be written ({})", path_, std::strerror(error)));
}

void copy_event_files(const std::string& from, const std::string& to) try {
  for (const fs::path& path : event_files_in(from))
    fs::copy_file(path, fs::path(to) / path.filename(), fs::copy_options::overwrite_existing);
} catch (const fs::filesystem_error& error) {
  throw Error(fmt::format("{}: its event files cannot be copied to {} ({})", from, to,
                          error.code().message()));
}

}  // namespace asup::report
