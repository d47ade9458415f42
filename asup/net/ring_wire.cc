#include "asup/net/ring_wire.h"

#include <algorithm>
#include <cstring>

namespace asup::net {

std::size_t RingWire::write(std::span<const ConstBytes> pieces) {
  const auto [bytes, ring] = writer_.write(pieces);
  if (ring) wake_peer();
  return bytes;
}

ConstBytes RingWire::peek(std::size_t) { return reader_.peek(); }

void RingWire::skip(std::size_t bytes) {
  reader_.skip(bytes);
  if (reader_.owes_room() && reader_.give_room()) wake_peer();
}

std::size_t RingWire::read(Bytes into) {
  const ConstBytes there = reader_.peek();
  const std::size_t n = std::min(there.size(), into.size());
  if (n == 0) return 0;
  std::memcpy(into.data(), there.data(), n);
  skip(n);
  return n;
}

bool RingWire::arm(bool wants_room) {
  const bool nothing_to_read = reader_.arm();
  return (!wants_room || writer_.arm()) && nothing_to_read;
}

void RingWire::disarm() {
  reader_.disarm();
  writer_.disarm();
}

}  // namespace asup::net
