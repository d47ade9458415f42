#include "asup/net/tcp/wire.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace asup::net {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;
constexpr std::size_t kDirectBytes = 16 * 1024;  // from here on a read goes straight to its place

void set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

}  // namespace

TcpWire::TcpWire(int socket) : socket_(socket), buffer_(kBufferBytes) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that vanishes without a word is noticed by its silence.
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

TcpWire::~TcpWire() { close(socket_); }

std::size_t TcpWire::write(std::span<const ConstBytes> pieces) {
  if (closed_) return 0;
  std::array<iovec, 4> vectors;
  std::size_t n = 0;
  for (ConstBytes piece : pieces)
    if (!piece.empty() && n < vectors.size())
      vectors[n++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = n;
  const ssize_t sent = sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  // A broken pipe is seen by the reading side too, after what arrived before it.
  return 0;
}

void TcpWire::end_writing() { shutdown(socket_, SHUT_WR); }

std::size_t TcpWire::receive(Bytes into) {
  if (closed_ || into.empty()) return 0;
  const ssize_t got = recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0 || (errno != EAGAIN && errno != EINTR)) closed_ = true;
  return 0;
}

ConstBytes TcpWire::peek(std::size_t want) {
  if (end_ - begin_ < want) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    end_ += receive(Bytes(buffer_).subspan(end_));
  }
  if (end_ - begin_ < want) return {};
  return ConstBytes(buffer_).subspan(begin_, end_ - begin_);
}

void TcpWire::skip(std::size_t bytes) { begin_ += bytes; }

std::size_t TcpWire::read(Bytes into) {
  const bool straight = begin_ == end_ && into.size() >= kDirectBytes;
  return straight ? receive(into) : Wire::read(into);
}

}  // namespace asup::net
