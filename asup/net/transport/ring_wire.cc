#include "asup/net/transport/ring_wire.h"

namespace asup::net {

std::size_t RingWire::write(std::span<const ConstBytes> pieces) {
  const std::size_t bytes = writer_.write(pieces);
  owes_wake_ |= bytes > 0;
  return bytes;
}

ConstBytes RingWire::peek(std::size_t, std::size_t) {
  const ConstBytes there = reader_.peek();
  broken_ = broken_ || reader_.broken();
  return broken_ ? ConstBytes{} : there;
}

void RingWire::skip(std::size_t bytes) {
  reader_.skip(bytes);
  if (!reader_.owes_room()) return;
  reader_.give_room();
  owes_wake_ = true;
}

void RingWire::wake_if_asleep() {
  owes_wake_ = false;
  if (writer_.reader_sleeps() || reader_.writer_sleeps()) wake_peer();
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
