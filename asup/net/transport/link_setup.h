// How a member's links come to be: every member listens at its listeners, connects to those of
// lower rank and admits those of higher rank, each side proving the job's key first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/base/fd.h"
#include "asup/net/membership/join_options.h"
#include "asup/net/membership/roster.h"
#include "asup/net/transport/wire.h"

namespace asup::net {

// Listening sockets: TCP on the job's own interface, and, unless all links are to be TCP, an
// abstract unix socket, which only this host and network namespace can reach. Used from one thread.
class Listeners {
 public:
  explicit Listeners(const JoinOptions& options);

  const std::string& tcp_address() const { return tcp_address_; }
  const std::string& unix_address() const { return unix_address_; }
  int tcp() const { return tcp_.get(); }
  int local() const { return local_.get(); }

 private:
  Fd tcp_, local_;
  std::string tcp_address_, unix_address_;
};

// Whether one of the ranks whose connection is missing will not come any more. `refused`: nobody
// took the last connection to it.
using InVain = std::function<bool(const std::vector<int>& missing, bool refused)>;

// Wires to all others, by rank, null at `rank`. Throws JobFailed that names the ranks whose
// connection is missing at the deadline, or once waiting is `in_vain`. Strangers at the listeners
// are turned away and do not hold the others up. `tls` is the job's.
std::vector<std::unique_ptr<Wire>> connect_all(const Roster& roster, int rank, const Key& key,
                                               LinkKind links, TlsMode tls,
                                               const Listeners& listeners, Deadline deadline,
                                               const InVain& in_vain);

}  // namespace asup::net
