#include "asup/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "asup/base/error.h"
#include "asup/base/fd.h"

namespace asup {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(fmt::format("{}: cannot be written ({})", path, std::strerror(error)));
}

// Removes a file that has not become whole.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const char* path() const { return path_.c_str(); }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void sync(int fd, const std::string& path) {
  // Some file systems cannot sync a folder or a special file, and say EINVAL: nothing to wait for.
  if (::fsync(fd) != 0 && errno != EINVAL) fail(path, errno);
}

}  // namespace

std::string temporary_path(const std::string& path) {
  const std::filesystem::path whole(path);
  return (whole.parent_path() / fmt::format(".{}.tmp", whole.filename().string())).string();
}

namespace {

// Another one in each process, on whatever host, and at each call.
std::string own_temporary_path(const std::string& path) {
  static const unsigned process = std::random_device()();
  static std::atomic<unsigned> calls = 0;
  return temporary_path(fmt::format("{}.{:08x}-{}", path, process, ++calls));
}

void write_parts(const char* file, int flags, const std::string& path,
                 std::span<const std::span<const std::byte>> parts) {
  Fd fd(::open(file, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666));
  if (!fd) fail(path, errno);
  for (const auto& part : parts) write_all(fd.get(), part, path);
  sync(fd.get(), path);
  if (::close(fd.release()) != 0) fail(path, errno);
}

}  // namespace

std::string user_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  if (!cache.empty()) return cache + "/asup";
  return home.empty() ? "" : home + "/.cache/asup";
}

std::string read_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 1 << 16> chunk;
  ssize_t count = fd ? 1 : -1;
  while (count > 0) {
    count = ::read(fd.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR)
      count = 1;
    else if (count > 0)
      text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  require(count == 0, "{}: cannot be read ({})", path, std::strerror(errno));
  return text;
}

void write_atomically(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  Temporary temporary(own_temporary_path(path));
  write_parts(temporary.path(), O_EXCL, path, parts);
  if (::rename(temporary.path(), path.c_str()) != 0) fail(path, errno);
  temporary.keep();

  const auto folder = std::filesystem::path(path).parent_path().string();
  Fd folder_fd(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_fd) fail(path, errno);
  sync(folder_fd.get(), path);
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  Temporary half(path);
  write_parts(path.c_str(), O_TRUNC, path, parts);
  half.keep();
}

void write_atomically(const std::string& path, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text.data(), text.size()));
  write_atomically(path, std::span(&part, 1));
}

}  // namespace asup
