#include "asup/data/image/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

namespace asup::data::image {
namespace {

[[noreturn]] void fail(int error) { throw std::system_error(error, std::generic_category()); }

}  // namespace

// Without O_NONBLOCK, opening a named pipe would wait for somebody to write to it.
OpenFile::OpenFile(const std::filesystem::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail(errno);
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) != 0 ? errno
                    : S_ISDIR(status.st_mode)          ? EISDIR
                    : S_ISREG(status.st_mode)          ? 0
                                                       : EINVAL;
  if (error != 0) {
    ::close(descriptor_);
    fail(error);
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
}

OpenFile::~OpenFile() { ::close(descriptor_); }

std::size_t OpenFile::read(std::uint64_t offset, std::span<std::uint8_t> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(errno);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace asup::data::image
