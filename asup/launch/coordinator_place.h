// Where the launcher's coordinator listens, and by which address the ranks find it. Functions only.
#pragma once

#include <string>
#include <vector>

#include "asup/launch/hosts.h"
#include "asup/launch/launch.h"
#include "asup/net/membership/address.h"

namespace asup::launch {

// The interface that was asked for; else loopback for a job on this host, and the way to the first
// other host where there is one. Throws BadInput where that cannot be found.
net::SocketAddress coordinator_place(const LaunchOptions& options,
                                     const std::vector<Placement>& placements);

// What ranks are told: `bound`, or an address in its stead where that is 0.0.0.0.
std::string advertised_address(const std::string& bound, const LaunchOptions& options,
                               const std::vector<Placement>& placements);

// The interface for the ranks of a host: a name or a network means something on every host, an
// address only on this one.
std::string interface_for(const HostSpec& host, const LaunchOptions& options);

// The host's address as ssh sees it: its configuration may give `beta` another name.
std::string ssh_hostname(const std::string& ssh, const std::string& host);

}  // namespace asup::launch
