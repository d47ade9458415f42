// What the wires over rings (between processes, between threads) have in common: all but how the
// peer is woken, how its end is seen and how its regions are found.
#pragma once

#include "asup/net/transport/ring.h"

namespace asup::net {

// Small enough to stay in a core's second-level cache, large enough to hide a wake-up.
inline constexpr std::size_t kRingCapacity = 256 * 1024;
inline constexpr std::size_t kRingBytes = sizeof(RingHeader) + kRingCapacity;

class RingWire : public Wire {
 public:
  // Two rings of kRingBytes each: one we write, one we read.
  RingWire(void* outgoing, void* incoming)
      : writer_(outgoing, kRingCapacity), reader_(incoming, kRingCapacity) {}

  std::size_t write(std::span<const ConstBytes> pieces) override;
  ConstBytes peek(std::size_t want, std::size_t useful) override;
  void skip(std::size_t bytes) override;
  bool quiet() override { return reader_.empty() && !closed(); }
  void wake_if_asleep() override;
  bool arm(bool wants_room) override;
  void disarm() override;

 protected:
  virtual void wake_peer() = 0;
  // The peer's count of what it wrote cannot be.
  bool broken() const { return broken_; }

 private:
  bool broken_ = false;
  RingWriter writer_;
  RingReader reader_;
};

}  // namespace asup::net
