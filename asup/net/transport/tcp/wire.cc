#include "asup/net/transport/tcp/wire.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace asup::net {
namespace {

// Of one receive of a payload that is looked at in place: it is still in the second-level cache
// when it is reduced.
constexpr std::size_t kBufferBytes = 256 * 1024;
// From here on a read goes straight to its place.
constexpr std::size_t kDirectBytes = 16 * 1024;
// After a payload: the next frame's header, and all of a small frame.
constexpr std::size_t kAheadBytes = 4 * 1024;
// Written but not sent yet. What waits in the kernel longer only falls out of the caches, and a
// writer that finds the socket full has other links to serve.
constexpr int kUnsentBytes = 128 * 1024;

void set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

TcpWire::TcpWire(int socket, std::unique_ptr<TlsStream> tls)
    : socket_(socket), tls_(std::move(tls)), buffer_(kBufferBytes) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  // A host that vanishes without a word is noticed by its silence: that of a link which nothing
  // waits to leave by, by these probes; of others by silence().
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 4);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 10);
}

TcpWire::~TcpWire() { close(socket_); }

std::size_t TcpWire::write(std::span<const ConstBytes> pieces) {
  if (closed_ || !may_write_) return 0;
  std::size_t bytes = 0;
  for (const ConstBytes piece : pieces) bytes += piece.size();
  // A broken pipe is seen by the reading side too, after what arrived before it.
  const std::size_t taken = tls_ ? tls_->write(pieces) : send(pieces);
  may_write_ = taken == bytes;
  if (tls_) closed_ = tls_->closed();
  return taken;
}

std::size_t TcpWire::send(std::span<const ConstBytes> pieces) {
  std::array<iovec, 4> vectors;
  std::size_t n = 0;
  for (ConstBytes piece : pieces)
    if (!piece.empty() && n < vectors.size())
      vectors[n++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = n;
  const ssize_t sent = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent < 0 ? 0 : static_cast<std::size_t>(sent);
}

// Sent and not acknowledged yet, or not sent.
std::size_t TcpWire::undelivered() const {
  int bytes = 0;
  return ioctl(socket_, SIOCOUTQ, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

void TcpWire::end_writing() { shutdown(socket_, SHUT_WR); }

// Fills `into`, then `then`. Only a call that finds nothing says that nothing is left: the end may
// come together with the last bytes.
std::size_t TcpWire::receive(Bytes into, Bytes then) {
  if (closed_ || !may_read_) return 0;
  if (tls_) return receive_encrypted(into, then);
  std::array<iovec, 2> vectors{{{into.data(), into.size()}, {then.data(), then.size()}}};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = then.empty() ? 1 : 2;
  const ssize_t got = recvmsg(socket_, &message, MSG_DONTWAIT);
  if (got > 0) return static_cast<std::size_t>(got);
  may_read_ = got < 0 && errno == EINTR;
  closed_ = got == 0 || (errno != EAGAIN && errno != EINTR);
  return 0;
}

std::size_t TcpWire::receive_encrypted(Bytes into, Bytes then) {
  std::size_t got = tls_->read(into);
  if (got == into.size()) got += tls_->read(then);
  may_read_ = tls_->may_have_more();
  closed_ = tls_->closed();
  return got;
}

ConstBytes TcpWire::peek(std::size_t want, std::size_t useful) {
  if (end_ - begin_ < want && may_read_) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const std::size_t most = std::min(buffer_.size(), useful + kAheadBytes);
    end_ += receive(Bytes(buffer_).subspan(end_, most - end_), {});
  }
  if (end_ - begin_ < want) return {};
  return ConstBytes(buffer_).subspan(begin_, end_ - begin_);
}

std::size_t TcpWire::read(Bytes into) {
  if (begin_ != end_ || into.size() < kDirectBytes) return Wire::read(into);
  const std::size_t got = receive(into, Bytes(buffer_).first(kAheadBytes));
  const std::size_t n = std::min(got, into.size());
  begin_ = 0;
  end_ = got - n;
  return n;
}

}  // namespace asup::net
