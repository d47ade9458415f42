// Frames as they come on a wire: a link whose first channels are waited for, and the next ones
// later or never.
#include <deque>

#include "asup/net/transport/link.h"
#include "tests/fuzz/input.h"
#include "tests/net/transport/memory_wire.h"

namespace asup::net {
namespace {

// Counts what it is given against what it was told, and wants to be given the next.
class CheckingReceiver : public Receiver {
 public:
  CheckingReceiver(Link& link, Channel channel) : link_(link), channel_(channel) { wait(); }
  bool begin(ConstBytes, std::uint64_t total) override {
    left_ = total;
    if (total % 3 != 0) return true;
    wait();
    return false;
  }
  Bytes room() override {
    return left_ % 2 == 0 ? Bytes(room_).first(std::min<std::size_t>(left_, room_.size()))
                          : Bytes{};
  }
  void advance(std::size_t bytes) override { subtract(bytes); }
  void take(ConstBytes bytes) override { subtract(bytes.size()); }
  void end() override {
    check(left_ == 0, "a message ended {} bytes early", left_);
    wait();
  }

 private:
  void wait() { link_.receive(channel_, *this); }
  void subtract(std::size_t bytes) {
    check(bytes <= left_, "{} bytes of a message that has {} left", bytes, left_);
    left_ -= bytes;
  }

  Link& link_;
  const Channel channel_;
  std::uint64_t left_ = 0;
  std::vector<std::byte> room_ = std::vector<std::byte>(4096);
};

}  // namespace
}  // namespace asup::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::net;
  const ConstBytes bytes = std::as_bytes(std::span(data, size));
  auto wire = std::make_unique<MemoryWire>();
  MemoryWire& peer = *wire;
  Link link(std::move(wire));
  std::deque<CheckingReceiver> receivers;
  for (Channel channel = 0; channel < 3; ++channel) receivers.emplace_back(link, channel);
  for (std::size_t at = 0; at < bytes.size() && link.end() == LinkEnd::open;) {
    const std::size_t n = std::min(bytes.size() - at, kUnit * (1 + at / kUnit % 7));
    peer.bring(bytes.subspan(at, n));
    at += n;
    while (link.progress()) continue;
    if (at > bytes.size() / 2 && receivers.size() == 3) receivers.emplace_back(link, 3);
  }
  link.forget(4);
  return 0;
}
