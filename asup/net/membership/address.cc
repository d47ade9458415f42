#include "asup/net/membership/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>

#include "asup/base/error.h"
#include "asup/base/numbers.h"

namespace asup::net {
namespace {

const sockaddr_in& as_v4(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in*>(address);
}
const sockaddr_in6& as_v6(const sockaddr* address) {
  return *reinterpret_cast<const sockaddr_in6*>(address);
}

}  // namespace

std::string Endpoint::to_string() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

Endpoint parse_endpoint(std::string_view text, std::string_view what) {
  const std::size_t colon = text.rfind(':');
  require(colon != text.npos && colon > 0, "{}='{}': write host:port", what, text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  require(bracketed || host.find(':') == host.npos,
          "{}='{}': write an IPv6 address in brackets, as in [::1]:29500", what, text);
  const auto port = number_in<std::uint16_t>(digits);
  require(port.has_value(), "{}='{}': '{}' is no port; write host:port with a port from 0 to 65535",
          what, text, digits);
  return {std::string(host), *port};
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length) : length_(length) {
  check(length <= sizeof storage_, "a socket address of {} bytes", length);
  std::memcpy(&storage_, address, length);
}

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? as_v6(get()).sin6_port : as_v4(get()).sin_port);
}

SocketAddress SocketAddress::with_port(std::uint16_t port) const {
  SocketAddress copy = *this;
  auto& storage = copy.storage_;
  if (family() == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(storage).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(storage).sin_port = htons(port);
  return copy;
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&as_v6(get()).sin6_addr);
  return ntohl(as_v4(get()).sin_addr.s_addr) >> 24 == 127;
}

bool SocketAddress::is_any() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&as_v6(get()).sin6_addr);
  return as_v4(get()).sin_addr.s_addr == INADDR_ANY;
}

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = "?";
  getnameinfo(get(), length_, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

std::string SocketAddress::to_string() const { return Endpoint{host(), port()}.to_string(); }

std::vector<SocketAddress> resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  require(error == 0, "cannot find the address of host '{}': {}", endpoint.host,
          error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next)
    addresses.emplace_back(entry->ai_addr, entry->ai_addrlen);
  return addresses;
}

SocketAddress local_address_towards(const SocketAddress& peer) {
  // Connecting a datagram socket sends nothing: it only picks the route.
  const Fd socket_fd(socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  check(static_cast<bool>(socket_fd), "socket: {}", std::strerror(errno));
  const SocketAddress target = peer.port() == 0 ? peer.with_port(9) : peer;
  require(connect(socket_fd.get(), target.get(), target.length()) == 0, "no route to {}: {}",
          peer.host(), std::strerror(errno));
  return bound_address(socket_fd.get()).with_port(0);
}

Fd listen_on(const SocketAddress& address, std::string_view remedy) {
  Fd socket_fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  check(static_cast<bool>(socket_fd), "socket: {}", std::strerror(errno));
  // Connections of an earlier job that are still in TIME_WAIT do not keep the port.
  const int on = 1;
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool listening = bind(socket_fd.get(), address.get(), address.length()) == 0 &&
                         listen(socket_fd.get(), SOMAXCONN) == 0;
  if (listening) return socket_fd;
  const int error = errno;
  if (error == EADDRINUSE)
    throw BadInput(
        fmt::format("port {} is in use on {}: {}", address.port(), address.host(), remedy));
  if (error == EADDRNOTAVAIL)
    throw BadInput(fmt::format("{} is not an address of this host ({}): {}", address.host(),
                               this_hostname(), remedy));
  throw BadInput(fmt::format("cannot listen on {}: {}; {}", address.to_string(),
                             std::strerror(error), remedy));
}

SocketAddress bound_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  check(getsockname(fd, address, &length) == 0, "getsockname: {}", std::strerror(errno));
  return {address, length};
}

SocketAddress peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  check(getpeername(fd, address, &length) == 0, "getpeername: {}", std::strerror(errno));
  return {address, length};
}

}  // namespace asup::net
