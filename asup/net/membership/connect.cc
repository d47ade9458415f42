#include "asup/net/membership/connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"

namespace asup::net {
namespace {

// A port that nobody listens on can, by chance, be the one the kernel gives to the caller, which
// then talks to itself.
bool connected_to_itself(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  return getpeername(fd, address, &length) == 0 &&
         SocketAddress(address, length).to_string() == bound_address(fd).to_string();
}

}  // namespace

bool wait_for(int fd, short events, Deadline deadline) {
  while (Clock::now() < deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd poll_fd{fd, events, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(std::min<long>(left.count(), 60'000)));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;
  }
  return false;
}

Fd try_connect(const SocketAddress& address, Deadline deadline, std::string& why) {
  Fd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check(static_cast<bool>(fd), "socket: {}", std::strerror(errno));
  int error = connect(fd.get(), address.get(), address.length()) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (wait_for(fd.get(), POLLOUT, deadline))
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error == 0 && connected_to_itself(fd.get())) error = ECONNREFUSED;
  if (error == 0) return fd;
  why = std::strerror(error);
  return Fd();
}

}  // namespace asup::net
