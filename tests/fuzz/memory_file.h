// Bytes as a file, for readers that want a path.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "asup/base/error.h"
#include "asup/base/fd.h"

namespace asup::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : MemoryFile(bytes.data(), bytes.size()) {}
  MemoryFile(const void* data, std::size_t size) : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    check(fd_ && write(fd_.get(), data, size) == static_cast<ssize_t>(size), "no file in memory");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  Fd fd_;
};

}  // namespace asup::fuzz
