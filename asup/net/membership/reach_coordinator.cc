#include "asup/net/membership/reach_coordinator.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"

namespace asup::net {
namespace {

using std::chrono::milliseconds;

// Polls the descriptor until it is ready or the deadline passes.
bool wait_for(int fd, short events, Deadline deadline) {
  while (Clock::now() < deadline) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    pollfd poll_fd{fd, events, 0};
    if (poll(&poll_fd, 1, static_cast<int>(std::min<long>(left.count(), 60'000))) > 0) return true;
  }
  return false;
}

// A port that nobody listens on can, by chance, be the one the kernel gives to the caller, which
// then talks to itself.
bool connected_to_itself(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  auto* address = reinterpret_cast<sockaddr*>(&peer);
  return getpeername(fd, address, &length) == 0 &&
         SocketAddress(address, length).to_string() == bound_address(fd).to_string();
}

// A connected socket, or none with the reason in `why`.
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

void refuse_if_another_answered(const HandshakeResult& result, const SocketAddress& address) {
  using Kind = HandshakeResult::Kind;
  require(result.kind != Kind::wrong_key,
          "the coordinator at {} does not share this process's key: {}. It may be another job's: "
          "use another port (MASTER_PORT or ASUP_COORDINATOR), or give all ranks the same "
          "ASUP_KEY_FILE",
          address.to_string(), result.reason);
  require(result.kind != Kind::garbage,
          "something other than asup listens at {} ({}): use another port (MASTER_PORT or "
          "ASUP_COORDINATOR)",
          address.to_string(), result.reason);
  require(result.kind != Kind::version, "the coordinator at {} is another version of asup: {}",
          address.to_string(), result.reason);
}

// Runs the handshake; nothing where the connection ended or stayed silent, with the reason in
// `why`.
std::optional<ControlConnection> try_handshake(Fd fd, const Key& key, const SocketAddress& address,
                                               Deadline deadline, std::string& why) {
  ControlConnection connection(std::move(fd), key, Side::connector);
  while (connection.open() && !connection.authenticated()) {
    if (!wait_for(connection.fd(), connection.events(), deadline)) {
      why = "it did not answer the handshake";
      return std::nullopt;
    }
    connection.on_ready();
    refuse_if_another_answered(connection.handshake_result(), address);
  }
  if (connection.authenticated()) return connection;
  why = connection.why_closed();
  return std::nullopt;
}

}  // namespace

ControlConnection reach_coordinator(const SocketAddress& address, const Key& key,
                                    const std::string& who, Deadline deadline) {
  std::string why = "no time was left to try";
  milliseconds pause(10);
  while (Clock::now() < deadline) {
    const Deadline patience = std::min(deadline, after(kHandshakeTimeout));
    if (Fd fd = try_connect(address, patience, why))
      if (auto connection = try_handshake(std::move(fd), key, address, patience, why))
        return *std::move(connection);
    log().debug("{}: coordinator at {}: {}", who, address.to_string(), why);
    std::this_thread::sleep_until(std::min<Deadline>(deadline, Clock::now() + pause));
    pause = std::min(pause * 2, milliseconds(500));
  }
  throw JobFailed(fmt::format(
      "{} could not reach the coordinator at {}: {}. Is it running, and is the port open?", who,
      address.to_string(), why));
}

ControlFrame next_frame(ControlConnection& connection, Deadline deadline) {
  for (;;) {
    if (auto frame = connection.receive()) return *std::move(frame);
    if (!connection.open())
      throw JobFailed(
          fmt::format("the connection to the coordinator ended: {}", connection.why_closed()));
    if (!wait_for(connection.fd(), connection.events(), deadline))
      throw JobFailed("the coordinator said nothing in time");
    connection.on_ready();
  }
}

}  // namespace asup::net
