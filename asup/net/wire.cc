#include "asup/net/wire.h"

#include <algorithm>
#include <cstring>

namespace asup::net {

std::size_t Wire::read(Bytes into) {
  const ConstBytes there = peek(1);
  const std::size_t n = std::min(there.size(), into.size());
  if (n == 0) return 0;
  std::memcpy(into.data(), there.data(), n);
  skip(n);
  return n;
}

}  // namespace asup::net
