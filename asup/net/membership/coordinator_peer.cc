#include "asup/net/membership/coordinator_peer.h"

namespace asup::net {

bool CoordinatorPeer::is_out_of_reach(Clock::time_point now) {
  if (now - heard < kQuiet) {
    probe.reset();
    return false;
  }
  const Seconds silence = connection.silence(now);
  if (!probe) probe = HostProbe::of(*member);
  if (!probe) return false;
  const bool answered = probe->unanswered() == 0;
  probe->look(now);
  // What it acknowledges tells as much, where the network lets nothing else through.
  if (answered && probe->unanswered() == 1) connection.send(ControlFrame::Kind::heartbeat);
  return probe->unreachable() && silence >= kQuiet;
}

void CoordinatorPeer::part(Deadline until) {
  refused = left_out = true;
  deadline = until;
  late = false;
  member.reset();
  next.reset();
  probe.reset();
}

}  // namespace asup::net
