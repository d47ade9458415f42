// Who is connected to a coordinator: a member, one who wants to be, or a stranger. Used from the
// coordinator's thread.
#pragma once

#include <optional>

#include "asup/net/membership/control_connection.h"
#include "asup/net/membership/host_probe.h"
#include "asup/net/membership/roster.h"

namespace asup::net {

struct CoordinatorPeer {
  ControlConnection connection;
  Deadline deadline;               // to say hello
  std::optional<Member> member{};  // once it has joined
  std::optional<Member> next{};    // as it is to be in the next generation, which it waits for
  bool said_goodbye = false;
  bool refused = false;  // gets what is still to be sent, then it is closed
  Clock::time_point heard = Clock::now();
  bool late = false;
  bool ready = true;                 // its socket has news
  bool left_out = false;             // the others go on without it
  std::optional<HostProbe> probe{};  // while it is silent

  bool is_stranger() const { return !member && !next && !left_out; }
  bool is_open_member() const { return member && !said_goodbye && !refused && connection.open(); }
  // Asks the host of a member that has been silent for a while whether it is there; true where it
  // neither answers nor acknowledges. A process that is stopped is in reach.
  bool is_out_of_reach(Clock::time_point now);
  // Its host may be about to be given up.
  bool in_doubt() const { return probe && probe->unanswered() > 0; }
  // It is a member no more; its connection stays until then, so that it can hear why.
  void part(Deadline until);
};

}  // namespace asup::net
