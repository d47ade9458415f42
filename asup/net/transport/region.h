// Memory of this process that other members of its host can map: anonymous files, so that nothing
// is left behind however the process ends.
#pragma once

#include <cstdint>
#include <memory>

#include "asup/base/fd.h"
#include "asup/net/transport/wire.h"

namespace asup::net {

// A mapping of an anonymous file; unmapped with its owner.
class Region {
 public:
  // Zeroed, page-aligned, and sealed: nobody can make it shorter under those who have mapped it.
  // Throws Error when the system has no memory left.
  static Region make(std::size_t bytes);
  // Maps what a peer offered. Throws Error where it is not sealed, or shorter than `bytes`;
  // OutOfMemory where this process has no room for it.
  static Region map(Fd fd, std::size_t bytes);

  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  Bytes bytes() const { return bytes_; }
  // Of one that was made, until it has been passed to all who are to map it; else -1.
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }

 private:
  explicit Region(Bytes bytes) : bytes_(bytes) {}

  Fd fd_;
  Bytes bytes_;
};

}  // namespace asup::net
