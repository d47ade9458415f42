#include "asup/net/membership/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"
#include "asup/net/membership/connect.h"

namespace asup::net {
namespace {

using Kind = HandshakeResult::Kind;

// Every message but the proof: "asup", its kind, the version, a flag, a zero, 32 bytes.
constexpr char kMagic[] = {'a', 's', 'u', 'p'};
constexpr std::uint8_t kVersion = 2;
constexpr std::uint8_t kHello = 'C', kChallenge = 'A', kAccepted = 'Y', kRefused = 'N';
constexpr std::size_t kHeader = 8, kBody = 32, kFlag = 6;

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t i) {
  return std::to_integer<std::uint8_t>(bytes[i]);
}

void append(std::vector<std::byte>& to, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  to.insert(to.end(), bytes, bytes + size);
}

}  // namespace

Handshake::Handshake(Side side, const Key& key, std::string_view context, TlsPolicy tls)
    : key_(key),
      context_(context),
      tls_(tls),
      state_(side == Side::connector ? State::challenge : State::hello) {
  Nonce& own = side == Side::connector ? connector_nonce_ : acceptor_nonce_;
  const int done = RAND_bytes(reinterpret_cast<unsigned char*>(own.data()), own.size());
  check(done == 1, "the system's random number generator failed");
  if (side == Side::acceptor) return;
  wanted_ = tls_.wants();
  put(kHello, own, wanted_);
}

std::vector<std::byte> Handshake::take_output() { return std::exchange(out_, {}); }

std::size_t Handshake::wanted() const {
  if (finished()) return 0;
  return (state_ == State::proof ? kBody : kHeader + kBody) - in_.size();
}

void Handshake::feed(std::span<const std::byte> bytes) {
  check(bytes.size() <= wanted(), "handshake: {} bytes fed, {} wanted", bytes.size(), wanted());
  in_.insert(in_.end(), bytes.begin(), bytes.end());
  // A stranger is told apart at its first wrong byte, not when a whole message has come.
  if (!opens_rightly()) return finish(Kind::garbage, "it does not speak asup's protocol");
  if (wanted() > 0) return;
  const auto message = std::exchange(in_, {});
  take(message);
}

bool Handshake::opens_rightly() const {
  if (state_ == State::proof || finished()) return true;
  const std::size_t n = std::min(in_.size(), sizeof kMagic);
  return std::memcmp(in_.data(), kMagic, n) == 0;
}

void Handshake::take(std::span<const std::byte> message) {
  if (state_ == State::proof) return take_proof(message);
  if (byte_at(message, 5) != kVersion)
    return finish(Kind::version, fmt::format("it speaks version {} of the handshake, this is {}",
                                             byte_at(message, 5), kVersion));
  switch (state_) {
    case State::hello:
      return take_hello(message);
    case State::challenge:
      return take_challenge(message);
    default:
      return take_answer(message);
  }
}

void Handshake::take_hello(std::span<const std::byte> message) {
  if (byte_at(message, 4) != kHello) return finish(Kind::garbage, "it did not begin with a hello");
  std::copy_n(message.begin() + kHeader, kBody, connector_nonce_.begin());
  wanted_ = byte_at(message, kFlag) != 0;
  encrypted_ = tls_.wants() || (tls_.mode == TlsMode::automatic && wanted_);
  put(kChallenge, acceptor_nonce_, encrypted_);
  state_ = State::proof;
}

void Handshake::take_challenge(std::span<const std::byte> message) {
  if (byte_at(message, 4) != kChallenge)
    return finish(Kind::garbage, "it did not answer the hello with a challenge");
  encrypted_ = byte_at(message, kFlag) != 0;
  if (!tls_.allows(encrypted_))
    return finish(Kind::tls, encrypted_ ? "it encrypts, and this process is told not to (--tls off)"
                                        : "it does not encrypt, and this process is told to "
                                          "(--tls on)");
  std::copy_n(message.begin() + kHeader, kBody, acceptor_nonce_.begin());
  append(out_, proof_of(Side::connector).data(), kBody);
  state_ = State::answer;
}

void Handshake::take_proof(std::span<const std::byte> message) {
  const bool right = CRYPTO_memcmp(message.data(), proof_of(Side::connector).data(), kBody) == 0;
  if (!right) {
    put(kRefused, Nonce{});
    return finish(Kind::wrong_key, "it does not hold this job's key");
  }
  put(kAccepted, proof_of(Side::acceptor));
  succeed();
}

void Handshake::take_answer(std::span<const std::byte> message) {
  if (byte_at(message, 4) == kRefused) return finish(Kind::wrong_key, "it refused this job's key");
  const bool right =
      byte_at(message, 4) == kAccepted &&
      CRYPTO_memcmp(message.data() + kHeader, proof_of(Side::acceptor).data(), kBody) == 0;
  if (!right) return finish(Kind::wrong_key, "it could not prove that it holds this job's key");
  succeed();
}

Handshake::Nonce Handshake::proof_of(Side side) const {
  return mac_of(side == Side::connector ? "asup handshake 2 connector"
                                        : "asup handshake 2 acceptor");
}

// Of all that both sides have said.
Handshake::Nonce Handshake::mac_of(std::string_view label) const {
  std::vector<std::byte> text;
  append(text, label.data(), label.size());
  text.push_back(std::byte{0});  // which no label contains
  const std::uint64_t length = context_.size();
  for (int shift = 0; shift < 64; shift += 8)
    text.push_back(static_cast<std::byte>(length >> shift & 0xff));
  append(text, context_.data(), context_.size());
  append(text, connector_nonce_.data(), kBody);
  append(text, acceptor_nonce_.data(), kBody);
  for (const bool flag : {wanted_, encrypted_}) text.push_back(static_cast<std::byte>(flag));
  Nonce mac;
  const auto* done = HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(mac.data()), nullptr);
  check(done != nullptr, "HMAC-SHA256 failed in OpenSSL");
  return mac;
}

void Handshake::put(std::uint8_t kind, std::span<const std::byte> body, bool flag) {
  append(out_, kMagic, sizeof kMagic);
  const std::uint8_t rest[] = {kind, kVersion, flag, 0};
  append(out_, rest, sizeof rest);
  append(out_, body.data(), body.size());
}

void Handshake::finish(Kind kind, std::string reason) {
  state_ = State::finished;
  result_ = {kind, std::move(reason)};
}

void Handshake::succeed() {
  finish(Kind::ok);
  if (encrypted_) result_.secret = mac_of("asup handshake 2 tls");
}

namespace {

HandshakeResult ended(ssize_t n) {
  if (n == 0) return {Kind::closed, "it closed the connection during the handshake"};
  return {Kind::closed, fmt::format("the connection failed: {}", std::strerror(errno))};
}

bool would_block(ssize_t n) {
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

HandshakeResult silent() { return {Kind::silent, "it did not answer the handshake in time"}; }

HandshakeResult send_all(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (!wait_for(fd, POLLOUT, deadline)) return silent();
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (would_block(n)) continue;
    if (n < 0) return ended(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace

HandshakeResult handshake(int fd, const Key& key, Side side, std::string_view context,
                          Deadline deadline, TlsPolicy tls) {
  Handshake machine(side, key, context, tls);
  for (;;) {
    const HandshakeResult sent = send_all(fd, machine.take_output(), deadline);
    if (machine.finished()) return machine.result().ok() && !sent.ok() ? sent : machine.result();
    if (!sent.ok()) return sent;
    if (!wait_for(fd, POLLIN, deadline)) return silent();
    std::byte buffer[64];
    const ssize_t n = recv(fd, buffer, std::min(machine.wanted(), sizeof buffer), MSG_DONTWAIT);
    if (would_block(n)) continue;
    if (n <= 0) return ended(n);
    machine.feed(std::span(buffer, static_cast<std::size_t>(n)));
  }
}

}  // namespace asup::net
