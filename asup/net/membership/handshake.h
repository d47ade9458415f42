// How two processes prove to each other that they hold the job's key, before either reads anything
// else the other says. docs/wire_format.md gives the bytes.
//
//   connector                                   acceptor
//     hello: 32 random bytes  ------------------>
//                             <------------------  challenge: 32 random bytes
//     proof: HMAC-SHA256 of both, as connector -->
//                             <------------------  answer: HMAC-SHA256 of both, as acceptor
//
// The HMAC's text begins with the side and the context, so that a proof sent back (reflected), or
// carried over from another connection or purpose, proves nothing. The acceptor says nothing to a
// stranger that does not open with asup's hello, and proves nothing to one without the key.
//
// The hello says whether the connector wants the connection encrypted, the challenge whether it
// will be, which both proofs confirm. What follows is then TLS (net/tls), with a secret of this
// connection's own.
//
// handshake() blocks its thread until the deadline at most; a Handshake does no I/O at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/membership/key.h"
#include "asup/net/membership/tls_mode.h"
#include "asup/net/tls/secret.h"

namespace asup::net {

struct [[nodiscard]] HandshakeResult {
  enum class Kind {
    ok,
    wrong_key,  // the peer speaks the protocol and has another key (or another context)
    version,    // the peer speaks another version of the handshake
    tls,        // one side is told to encrypt, and the other not to
    garbage,    // whoever it is, it is not asup
    silent,     // nothing came before the deadline
    closed      // the connection ended
  };
  Kind kind = Kind::ok;
  std::string reason;  // "", or what to tell a person about the peer
  // What the TLS that follows is opened with; none: what follows is not encrypted.
  std::optional<TlsSecret> secret{};

  bool ok() const { return kind == Kind::ok; }
};

inline constexpr Seconds kHandshakeTimeout{5};

// Proves the key over a connected stream socket (TCP or unix, blocking or not). Afterwards the
// socket stands at the first byte after the handshake. `context` says what the connection is for;
// both sides must name the same. Never throws for what the peer does.
HandshakeResult handshake(int fd, const Key& key, Side side, std::string_view context,
                          Deadline deadline = after(kHandshakeTimeout), TlsPolicy tls = {});

// The same as a state machine, for loops that serve many connections: send take_output(), then
// feed() what arrives, never more than wanted() bytes, until finished().
class Handshake {
 public:
  Handshake(Side side, const Key& key, std::string_view context, TlsPolicy tls = {});

  std::vector<std::byte> take_output();
  std::size_t wanted() const;
  void feed(std::span<const std::byte> bytes);

  bool finished() const { return state_ == State::finished; }
  const HandshakeResult& result() const { return result_; }

 private:
  enum class State { hello, challenge, proof, answer, finished };
  using Nonce = std::array<std::byte, 32>;

  void take(std::span<const std::byte> message);
  void take_hello(std::span<const std::byte> message);
  void take_challenge(std::span<const std::byte> message);
  void take_proof(std::span<const std::byte> message);
  void take_answer(std::span<const std::byte> message);
  bool opens_rightly() const;
  void put(std::uint8_t kind, std::span<const std::byte> body, bool flag = false);
  void finish(HandshakeResult::Kind kind, std::string reason = "");
  void succeed();
  Nonce proof_of(Side side) const;
  Nonce mac_of(std::string_view label) const;

  const Key key_;
  const std::string context_;
  const TlsPolicy tls_;
  State state_;
  Nonce connector_nonce_{}, acceptor_nonce_{};
  bool wanted_ = false, encrypted_ = false;  // by the hello; by the challenge
  std::vector<std::byte> in_, out_;
  HandshakeResult result_;
};

}  // namespace asup::net
