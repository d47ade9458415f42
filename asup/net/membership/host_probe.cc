#include "asup/net/membership/host_probe.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace asup::net {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(950);  // who looks once a second asks each time
constexpr auto kAfterAnAnswer = std::chrono::seconds(3);

}  // namespace

std::optional<HostProbe> HostProbe::of(const Member& member) {
  if (member.tcp_address.empty()) return std::nullopt;
  const Endpoint endpoint = parse_endpoint(member.tcp_address, "a member's address");
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST;  // looking up a name would take its time
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(endpoint.host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const SocketAddress address =
      SocketAddress(found->ai_addr, found->ai_addrlen).with_port(endpoint.port);
  freeaddrinfo(found);
  return address.is_any() ? std::nullopt : std::optional(HostProbe(address));
}

void HostProbe::look(Clock::time_point now) {
  if (waits_ && attempt_ && is_answered()) return take_answer(now);
  if (now >= next_) ask(now);
}

void HostProbe::ask(Clock::time_point now) {
  if (waits_) ++unanswered_;
  next_ = now + kEvery;
  attempt_.reset(socket(address_.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  waits_ = static_cast<bool>(attempt_);  // that we have no socket left says nothing of the host
  if (!waits_) return;
  const linger at_once{1, 0};  // where somebody listens, nothing of this is left
  setsockopt(attempt_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  if (connect(attempt_.get(), address_.get(), address_.length()) == 0 || errno == ECONNREFUSED)
    take_answer(now);
}

// What our own kernel finds out, such as that there is no way, is no answer.
bool HostProbe::is_answered() const {
  pollfd ready{attempt_.get(), POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(attempt_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return false;
  const bool connected = error == 0 && (ready.revents & POLLHUP) == 0;
  return connected || error == ECONNREFUSED || error == ECONNRESET;
}

void HostProbe::take_answer(Clock::time_point now) {
  attempt_.reset();
  waits_ = false;
  unanswered_ = 0;
  next_ = now + kAfterAnAnswer;
}

}  // namespace asup::net
