#include "asup/net/membership/control_connection.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "asup/base/error.h"

namespace asup::net {
namespace {

constexpr std::string_view kContext = "coordinator";
// A peer that takes nothing off this many bytes has long stopped reading.
constexpr std::size_t kMostUnsent = 8 * kMostBody;

void set_option(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// Frames are few and small, and wait for nothing. Whether a host has vanished is found out by who
// watches it (host_probe.h), sooner than by these probes.
void prepare(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 3);
}

void append(std::string& to, std::span<const std::byte> bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

ControlConnection::ControlConnection(Fd socket, const Key& key, Side side, TlsMode tls)
    : socket_(std::move(socket)),
      side_(side),
      handshake_(side, key, kContext, {tls, leaves_host(socket_.get())}) {
  prepare(socket_.get());
  append(out_, handshake_.take_output());
}

short ControlConnection::events() const {
  // What TLS has read ahead the socket does not tell of: the loop comes back at once.
  const bool at_once = tls_ && (tls_->may_have_more() || tls_->has_unsent());
  return static_cast<short>(POLLIN | (out_.empty() && !at_once ? 0 : POLLOUT));
}

void ControlConnection::on_ready() {
  if (open()) read_some();
  if (open()) write_some();
}

void ControlConnection::send(ControlFrame::Kind kind, const std::string& body) {
  if (!open()) return;
  (authenticated() ? out_ : queued_) += encode(kind, body);
  if (out_.size() + queued_.size() > kMostUnsent) return close("it stopped reading");
  if (authenticated()) write_some();
}

std::optional<ControlFrame> ControlConnection::receive() {
  try {
    return reader_.next();
  } catch (const BadInput& error) {
    reader_ = {};
    breach(error.what());
    return std::nullopt;
  }
}

void ControlConnection::read_some() {
  std::byte buffer[16 * 1024];
  // At most 16 rounds, so that a peer that never stops talking neither holds up the loop nor fills
  // the memory. The handshake never takes a byte that belongs to the frames behind it.
  for (int round = 0; round < 16 && open(); ++round) {
    if (tls_) {
      if (!read_encrypted(buffer)) return;
      continue;
    }
    const std::size_t room =
        handshake_.finished() ? sizeof buffer : std::min(handshake_.wanted(), sizeof buffer);
    const ssize_t n = recv(socket_.get(), buffer, room, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) ended_by_peer_ = n == 0 || errno == ECONNRESET;
    if (n == 0) return close("the connection was closed");
    if (n < 0) return close(std::strerror(errno));
    const std::span bytes(buffer, static_cast<std::size_t>(n));
    if (handshake_.finished())
      reader_.feed(bytes);
    else
      take_handshake(bytes);
  }
}

// False: there is nothing more now.
bool ControlConnection::read_encrypted(std::span<std::byte> buffer) {
  if (!authenticated_ && tls_->establish()) be_authenticated();
  const std::size_t n = authenticated_ ? tls_->read(buffer) : 0;
  reader_.feed(buffer.first(n));
  ended_by_peer_ = tls_->ended_by_peer();
  if (tls_->closed()) close(tls_->why());
  return tls_->may_have_more();
}

void ControlConnection::take_handshake(std::span<const std::byte> bytes) {
  handshake_.feed(bytes);
  append(out_, handshake_.take_output());
  if (!handshake_.finished()) return;
  const HandshakeResult& result = handshake_.result();
  if (result.ok() && !result.secret) return be_authenticated();
  write_some();  // a refusal is worth sending; a proof goes ahead of what is encrypted
  if (!result.ok()) return close(result.reason);
  if (!out_.empty()) return close("it reads nothing");
  tls_ = std::make_unique<TlsStream>(socket_.get(), side_, *result.secret, std::string(kContext));
}

void ControlConnection::be_authenticated() {
  authenticated_ = true;
  out_ += std::exchange(queued_, {});
}

void ControlConnection::write_some() {
  if (tls_ && authenticated_) {
    const auto bytes = std::as_bytes(std::span(out_));
    out_.erase(0, tls_->write({&bytes, 1}));
    return;
  }
  while (open() && !out_.empty()) {
    const ssize_t n = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    // What the peer sent before it closed can still be read, and reading then says that it closed.
    if (n < 0) return out_.clear();
    out_.erase(0, static_cast<std::size_t>(n));
  }
}

void ControlConnection::breach(std::string why) {
  if (!open()) return;
  breached_ = true;
  close(std::move(why));
}

void ControlConnection::close(std::string why) {
  if (open()) why_closed_ = why.empty() ? "the connection was closed" : std::move(why);
}

}  // namespace asup::net
