// The bytes of somebody who does not hold the key, on both sides of the handshake.
#include "asup/net/membership/handshake.h"

#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace asup::net;
  for (const Side side : {Side::acceptor, Side::connector})
    for (const TlsMode tls : {TlsMode::automatic, TlsMode::on}) {
      Handshake handshake(side, Key{}, "fuzz", {tls, true});
      auto left = std::as_bytes(std::span(data, size));
      while (!handshake.finished() && !left.empty()) {
        const std::size_t n = std::min(left.size(), handshake.wanted());
        handshake.feed(left.first(n));
        (void)handshake.take_output();
        left = left.subspan(n);
      }
      asup::check(!handshake.finished() || !handshake.result().ok(), "the key was guessed");
    }
  return 0;
}
