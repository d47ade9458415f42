// Which of this host's addresses the job uses; declared in address.h.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/base/numbers.h"
#include "asup/net/membership/address.h"
#include "asup/net/membership/join_options.h"

namespace asup::net {
namespace {

struct Interface {
  std::string name;
  SocketAddress address;
};

// IPv4 first: where an interface has both, its IPv6 address is often only link-local.
std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  check(getifaddrs(&first) == 0, "getifaddrs: {}", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<Interface> found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
      const bool usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == family &&
                          (entry->ifa_flags & IFF_UP) != 0;
      const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      if (usable) found.push_back({entry->ifa_name, {entry->ifa_addr, length}});
    }
  return found;
}

std::string list_of(const std::vector<Interface>& all) {
  std::string text;
  for (const auto& [name, address] : all)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, address.host());
  return text;
}

std::span<const std::uint8_t> bits_of(const SocketAddress& address) {
  if (address.family() == AF_INET6)
    return {reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr.s6_addr, 16};
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(address.get());
  return {reinterpret_cast<const std::uint8_t*>(&v4->sin_addr), 4};
}

// A numeric address without asking any name server.
std::optional<SocketAddress> numeric(const std::string& text) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1)
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1)
    return SocketAddress(reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
  return std::nullopt;
}

// An address and how many of its leading bits count: a host's own address, or a network.
struct Network {
  SocketAddress address;
  std::size_t bits;

  bool contains(const SocketAddress& other) const {
    if (other.family() != address.family()) return false;
    const auto a = bits_of(address), b = bits_of(other);
    for (std::size_t i = 0; i < bits; ++i)
      if ((a[i / 8] >> (7 - i % 8) & 1) != (b[i / 8] >> (7 - i % 8) & 1)) return false;
    return true;
  }
};

std::optional<Network> parse_network(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = numeric(text.substr(0, slash));
  if (!address) return std::nullopt;
  const std::size_t all = bits_of(*address).size() * 8;
  if (slash == text.npos) return Network{*address, all};
  const auto bits = number_in<std::size_t>(std::string_view(text).substr(slash + 1));
  require(bits && *bits <= all,
          "interface '{}': after the slash comes a number of bits from 0 to {}", text, all);
  return Network{*address, *bits};
}

SocketAddress loopback() { return *numeric("127.0.0.1"); }

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<SocketAddress> resolve_patiently(const Endpoint& endpoint, Deadline deadline) {
  for (bool told = false;;) {
    try {
      return resolve(endpoint);
    } catch (const BadInput& error) {
      if (Clock::now() + std::chrono::seconds(1) > deadline) throw;
      if (!std::exchange(told, true)) log().warn("{}; trying again", error.what());
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

}  // namespace

SocketAddress interface_address(const std::string& text) {
  const auto all = interfaces();
  const auto network = parse_network(text);
  if (network && network->address.is_any() && text.find('/') == text.npos) return network->address;
  for (const auto& [name, address] : all)
    if (network ? network->contains(address) : name == text) return address.with_port(0);
  throw BadInput(fmt::format("interface '{}' is not on {}, which has: {}", text, this_hostname(),
                             list_of(all)));
}

SocketAddress own_address() {
  for (const char* far :
       {"192.0.2.1", "2001:db8::1"})  // addresses that no host has (RFC 5737, 3849)
    try {
      return local_address_towards(*numeric(far));
    } catch (const BadInput&) {  // no default route of this family
    }
  for (const auto& [name, address] : interfaces())
    if (!address.is_loopback()) return address.with_port(0);
  return loopback();
}

SocketAddress coordinator_address(const JoinOptions& options, Deadline deadline) {
  const Endpoint endpoint = parse_endpoint(options.coordinator, "ASUP_COORDINATOR");
  const bool means_loopback = endpoint.host == "localhost" || numeric(endpoint.host).has_value();
  const auto addresses = resolve_patiently(endpoint, deadline);
  if (means_loopback || options.one_host) return addresses.front();
  for (const SocketAddress& address : addresses)
    if (!address.is_loopback()) return address;
  const SocketAddress own =
      options.interface.empty() ? own_address() : interface_address(options.interface);
  return own.with_port(endpoint.port);
}

std::string listen_host(const JoinOptions& options) {
  if (!options.interface.empty()) {
    const SocketAddress chosen = interface_address(options.interface);
    if (!chosen.is_any()) return chosen.host();
  }
  if (options.coordinator.empty()) return loopback().host();
  const SocketAddress coordinator = coordinator_address(options, after(options.join_timeout));
  return local_address_towards(coordinator).host();
}

std::string this_hostname() {
  char name[256] = "?";
  gethostname(name, sizeof name - 1);
  return name;
}

HostId this_host() {
  char target[64] = {};
  const ssize_t n = readlink("/proc/self/ns/net", target, sizeof target - 1);
  check(n > 0, "/proc/self/ns/net: {}", std::strerror(errno));
  HostId host{first_line("/proc/sys/kernel/random/boot_id"), target};
  check(!host.boot.empty(), "/proc/sys/kernel/random/boot_id cannot be read");
  return host;
}

}  // namespace asup::net
