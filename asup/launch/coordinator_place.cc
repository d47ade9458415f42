#include "asup/launch/coordinator_place.h"

#include <stdio.h>

#include <algorithm>
#include <memory>

#include "asup/base/error.h"
#include "asup/launch/lines.h"

namespace asup::launch {
namespace {

net::SocketAddress towards(const std::vector<Placement>& placements, const LaunchOptions& options) {
  const auto other = std::find_if(placements.begin(), placements.end(),
                                  [](const Placement& p) { return !p.host.local(); });
  if (other == placements.end()) return net::interface_address("127.0.0.1");
  const std::string name = ssh_hostname(options.ssh, other->host.name);
  try {
    return net::local_address_towards(net::resolve({name, 22}).front());
  } catch (const BadInput& error) {
    throw BadInput(
        fmt::format("host {}: {}. Say with --interface which of this host's addresses "
                    "the others can reach",
                    other->host.name, error.what()));
  }
}

}  // namespace

net::SocketAddress coordinator_place(const LaunchOptions& options,
                                     const std::vector<Placement>& placements) {
  const net::SocketAddress place = options.interface.empty()
                                       ? towards(placements, options)
                                       : net::interface_address(options.interface);
  return place.with_port(options.port);
}

std::string advertised_address(const std::string& bound, const LaunchOptions& options,
                               const std::vector<Placement>& placements) {
  const net::SocketAddress address =
      net::resolve(net::parse_endpoint(bound, "coordinator")).front();
  if (!address.is_any()) return bound;
  return towards(placements, options).with_port(address.port()).to_string();
}

std::string interface_for(const HostSpec& host, const LaunchOptions& options) {
  const bool address =
      !options.interface.empty() &&
      options.interface.find_first_not_of("0123456789abcdef.:") == options.interface.npos &&
      options.interface.find_first_of(".:") != options.interface.npos;
  return address && !host.local() ? "" : options.interface;
}

std::string ssh_hostname(const std::string& ssh, const std::string& host) {
  const std::string plain = host.substr(host.find('@') + 1);  // npos + 1 is 0
  // parse_hosts lets no quotes or blanks through, so the shell sees one word.
  const std::string command = fmt::format("{} -G '{}' 2>/dev/null", ssh, host);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) return plain;
  char buffer[16 * 1024];
  std::string text;
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe.get())) > 0;)
    text.append(buffer, n);
  for (const std::string& line : Lines().feed(text))
    if (line.starts_with("hostname ")) return line.substr(9);
  return plain;
}

}  // namespace asup::launch
