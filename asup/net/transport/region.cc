#include "asup/net/transport/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/out_of_memory.h"

namespace asup::net {

namespace {

Bytes mapped(int fd, std::size_t bytes) {
  const auto refuse = [&](std::string_view why) {
    throw Error(fmt::format("cannot map {} bytes of shared memory: {}", bytes, why));
  };
  // Where the file can be cut, a look at what is gone ends the process.
  if (const int seals = fcntl(fd, F_GET_SEALS); seals < 0 || !(seals & F_SEAL_SHRINK))
    refuse("the file is not sealed");
  struct stat status {};
  if (fstat(fd, &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes)
    refuse("the file is shorter");
  if (bytes == 0) refuse("there are none");
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED && errno == ENOMEM)
    throw OutOfMemory(fmt::format("this process has no memory to map {} bytes", bytes));
  if (at == MAP_FAILED) refuse(std::strerror(errno));
  return {static_cast<std::byte*>(at), bytes};
}

}  // namespace

Region Region::make(std::size_t bytes) {
  Fd fd(memfd_create("asup", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  check(static_cast<bool>(fd), "memfd_create: {}", std::strerror(errno));
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw Error(
        fmt::format("cannot make {} bytes of shared memory: {}", bytes, std::strerror(errno)));
  check(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0,
        "cannot seal shared memory: {}", std::strerror(errno));
  Region region(mapped(fd.get(), bytes));
  region.fd_ = std::move(fd);
  return region;
}

Region Region::map(Fd fd, std::size_t bytes) { return Region(mapped(fd.get(), bytes)); }

Region::Region(Region&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Region::~Region() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace asup::net
