// Encrypted streams whose bytes pass through the hands of a test.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "asup/net/tls/stream.h"

namespace asup::net {

using Recorded = std::vector<std::byte>;

inline void set_non_blocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Waits for the peer to do the same.
inline std::unique_ptr<TlsStream> established_stream(int fd, Side side) {
  set_non_blocking(fd);
  auto stream = std::make_unique<TlsStream>(fd, side, TlsSecret{}, "a test");
  while (!stream->establish()) {
    check(!stream->closed(), "no TLS: {}", stream->describe_end());
    pollfd ready{fd, POLLIN, 0};
    poll(&ready, 1, 100);
  }
  return stream;
}

// One direction of a wire that the test holds in its hands.
class Direction {
 public:
  Direction(int from, int to) : from_(from), to_(to) {}

  // Passes on what has come, as `change` leaves it; true when anything moved.
  bool pump() {
    Recorded bytes(1 << 16);
    const ssize_t got = recv(from_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    recorded.insert(recorded.end(), bytes.begin(), bytes.end());
    if (change && !bytes.empty()) change(bytes);
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
    const ssize_t sent = send(to_, waiting_.data(), waiting_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) waiting_.erase(waiting_.begin(), waiting_.begin() + sent);
    return got > 0 || sent > 0;
  }

  Recorded recorded;
  std::function<void(Recorded&)> change;

 private:
  int from_, to_;
  Recorded waiting_;
};

// Two streams with the test between them.
class TlsEnds {
 public:
  int connector_socket() const { return connector_.ours.get(); }
  int acceptor_socket() const { return acceptor_.ours.get(); }

  // False: one end has closed.
  bool establish(TlsStream& connector, TlsStream& acceptor) {
    for (;;) {
      const bool one = connector.establish(), other = acceptor.establish();
      if (one && other) return true;
      const bool moved = pump();
      if (!moved && (connector.closed() || acceptor.closed())) return false;
    }
  }
  bool pump() {
    const bool out = there.pump(), back = this->back.pump();
    return out || back;
  }

 private:
  struct Pair {
    Pair() {
      int fds[2];
      check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
      set_non_blocking(fds[0]);
      ours.reset(fds[0]);
      of_the_test.reset(fds[1]);
    }
    Fd ours, of_the_test;
  };
  Pair connector_, acceptor_;

 public:
  Direction there{connector_.of_the_test.get(), acceptor_.of_the_test.get()};
  Direction back{acceptor_.of_the_test.get(), connector_.of_the_test.get()};
};

}  // namespace asup::net
