#include "asup/net/transport/region.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "asup/base/error.h"

namespace asup::net {

Region Region::make(std::size_t bytes) {
  const int fd = memfd_create("asup", MFD_CLOEXEC);
  check(fd >= 0, "memfd_create: {}", std::strerror(errno));
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(fd);
    throw Error(
        fmt::format("cannot make {} bytes of shared memory: {}", bytes, std::strerror(error)));
  }
  return map(fd, bytes);
}

Region Region::map(int fd, std::size_t bytes) {
  struct stat status {};
  const bool whole = fstat(fd, &status) == 0 && static_cast<std::size_t>(status.st_size) >= bytes;
  void* at = whole && bytes > 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                : MAP_FAILED;
  if (at == MAP_FAILED) {
    const int error = errno;
    close(fd);
    throw Error(fmt::format("cannot map {} bytes of shared memory: {}", bytes,
                            whole ? std::strerror(error) : "the file is shorter"));
  }
  return {fd, {static_cast<std::byte*>(at), bytes}};
}

Region::Region(Region&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), bytes_(std::exchange(other.bytes_, {})) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Region::~Region() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (fd_ >= 0) close(fd_);
}

}  // namespace asup::net
