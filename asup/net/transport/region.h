// Memory of this process that other members of its host can map: anonymous files, so that nothing
// is left behind however the process ends.
#pragma once

#include <cstdint>
#include <memory>

#include "asup/net/transport/wire.h"

namespace asup::net {

// A mapping of an anonymous file; unmapped and closed with its owner.
class Region {
 public:
  // Zeroed, page-aligned. Throws Error when the system has no memory left.
  static Region make(std::size_t bytes);
  // Maps what a peer offered; takes ownership of `fd`.
  static Region map(int fd, std::size_t bytes);

  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  Bytes bytes() const { return bytes_; }
  int fd() const { return fd_; }

 private:
  Region(int fd, Bytes bytes) : fd_(fd), bytes_(bytes) {}

  int fd_ = -1;
  Bytes bytes_;
};

}  // namespace asup::net
