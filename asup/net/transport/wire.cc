#include "asup/net/transport/wire.h"

#include <algorithm>
#include <cstring>

namespace asup::net {

std::size_t Wire::read(Bytes into) {
  if (into.empty()) return 0;
  const ConstBytes there = peek(1, into.size());
  const std::size_t n = std::min(there.size(), into.size());
  if (n == 0) return 0;
  std::memcpy(into.data(), there.data(), n);
  skip(n);
  return n;
}

}  // namespace asup::net
