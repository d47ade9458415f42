#include "asup/data/byte_source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"

namespace asup::data {
namespace {

constexpr std::size_t kChunk = 1u << 18;
// Deflate spends at least two bits on a run of 258 bytes.
constexpr std::uint64_t kMaxExpansion = 1032;

}  // namespace

void ByteSource::EndInflate::operator()(z_stream* stream) const {
  inflateEnd(stream);
  delete stream;
}

ByteSource::ByteSource(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path_, error))
    fail(std::filesystem::exists(path_, error) ? "not a file" : "no such file");
  file_size_ = std::filesystem::file_size(path_, error);
  file_.reset(std::fopen(path_.c_str(), "rb"));
  if (!file_ || error) fail(fmt::format("cannot be opened: {}", std::strerror(errno)));

  std::uint8_t magic[2] = {};
  const bool gzip = read_file(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  std::rewind(file_.get());
  if (!gzip) return;
  input_.resize(kChunk);
  auto stream = std::make_unique<z_stream>();
  *stream = {};
  // 16: a gzip wrapper; 15: the largest window.
  check(inflateInit2(stream.get(), 16 + 15) == Z_OK, "zlib cannot start");
  stream_.reset(stream.release());
}

void ByteSource::fail(std::string_view what) const {
  throw BadInput(fmt::format("{}: {}", path_.string(), what));
}

std::uint64_t ByteSource::capacity() const {
  return stream_ ? file_size_ * kMaxExpansion : file_size_;
}

std::size_t ByteSource::read(std::span<std::uint8_t> out) {
  return stream_ ? read_gzip(out) : read_file(out);
}

std::size_t ByteSource::read_file(std::span<std::uint8_t> out) {
  const std::size_t got = std::fread(out.data(), 1, out.size(), file_.get());
  if (std::ferror(file_.get())) fail(fmt::format("cannot be read: {}", std::strerror(errno)));
  return got;
}

std::size_t ByteSource::read_gzip(std::span<std::uint8_t> out) {
  std::size_t got = 0;
  while (got < out.size()) {
    if (stream_->avail_in == 0 && !more_input()) {
      if (between_members_) break;
      fail("its compressed data breaks off: the file is cut short; get it again");
    }
    const std::size_t room = std::min(out.size() - got, kChunk);
    stream_->next_out = out.data() + got;
    stream_->avail_out = static_cast<uInt>(room);
    inflate_some();
    got += room - stream_->avail_out;
  }
  return got;
}

bool ByteSource::more_input() {
  stream_->next_in = input_.data();
  stream_->avail_in = static_cast<uInt>(read_file(input_));
  return stream_->avail_in > 0;
}

// needs: input. A gzip file is one or several compressed members, one after the other.
void ByteSource::inflate_some() {
  if (between_members_) {
    if (*stream_->next_in != 0x1f) fail("other bytes follow its compressed data; get it again");
    inflateReset(stream_.get());
    between_members_ = false;
  }
  const int result = inflate(stream_.get(), Z_NO_FLUSH);
  between_members_ = result == Z_STREAM_END;
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
    const char* reason = stream_->msg ? stream_->msg : zError(result);
    fail(fmt::format("its compressed data is corrupt ({}); get it again", reason));
  }
}

std::vector<std::uint8_t> ByteSource::take(std::size_t count, std::string_view what) {
  std::vector<std::uint8_t> bytes;
  while (bytes.size() < count) {
    const std::size_t begin = bytes.size();
    const std::size_t part = std::min(count - begin, std::max(kChunk, begin));
    bytes.resize(begin + part);
    const std::size_t got = read(std::span(bytes).subspan(begin));
    if (got < part)
      fail(fmt::format(
          "ends after {} of the {} bytes of its {}: the file is cut short; get it again",
          begin + got, count, what));
  }
  return bytes;
}

void ByteSource::expect_end() {
  std::uint8_t extra;
  if (read({&extra, 1}) != 0) fail("goes on after its data should have ended; get it again");
}

}  // namespace asup::data
