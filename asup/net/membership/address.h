// Names, addresses and interfaces: where a member listens, and where it finds the others.
//
// asup listens on one interface, the job's own: the one that is asked for by name, address or
// network, else the one through which the coordinator is reached. Functions only; safe from any
// thread. Name lookups block.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/clock.h"
#include "asup/base/fd.h"
#include "asup/net/membership/roster.h"

namespace asup::net {

struct JoinOptions;

// host:port as people write it; an IPv6 address stands in brackets.
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;
  std::string to_string() const;
};

// `what` names the variable or flag in the message of the BadInput it throws.
Endpoint parse_endpoint(std::string_view text, std::string_view what);

// A numeric address and port.
class SocketAddress {
 public:
  SocketAddress(const sockaddr* address, socklen_t length);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }

  std::uint16_t port() const;
  SocketAddress with_port(std::uint16_t port) const;
  bool is_loopback() const;
  bool is_any() const;  // 0.0.0.0 or ::
  std::string host() const;
  std::string to_string() const;  // "10.0.0.1:29501", "[fe80::1]:29501"

 private:
  sockaddr_storage storage_{};
  socklen_t length_;
};

// All addresses of the name. Throws BadInput with the resolver's reason.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

// The address of the interface that `text` means: its name (eth0), one of this host's addresses, a
// network (10.1.0.0/16) in which this host has an address, or 0.0.0.0 for all. Port 0. Throws
// BadInput that lists what there is.
SocketAddress interface_address(const std::string& text);

// The local address from which packets to `peer` leave. Sends nothing. Throws BadInput when there
// is no route.
SocketAddress local_address_towards(const SocketAddress& peer);

// An address of this host that others can reach: that of the default route, else of the first
// interface that is up and not loopback, else 127.0.0.1.
SocketAddress own_address();

// Where the coordinator of this job is. A host's own name often stands for 127.0.1.1 in its
// /etc/hosts; in a job of several hosts that becomes own_address(), which the others can reach.
// A name that cannot be resolved is tried again until the deadline: it may be made in this moment.
SocketAddress coordinator_address(const JoinOptions& options, Deadline deadline);

// The address (no port) on which the member listens for its peers and which it tells them.
std::string listen_host(const JoinOptions& options);

// A listening TCP socket, close-on-exec and non-blocking. Throws BadInput; where the port is in
// use, the message ends with `remedy`.
Fd listen_on(const SocketAddress& address, std::string_view remedy);
SocketAddress bound_address(int fd);
SocketAddress peer_address(int fd);  // of a connected socket

std::string this_hostname();
HostId this_host();

}  // namespace asup::net
