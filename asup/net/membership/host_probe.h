// Finds out whether a host is still there: every second its kernel is asked for a connection, and
// any answer will do, a refusal too. TCP's own repetitions become rarer and rarer while a network
// is down, so that a host which is back would be believed lost; these do not. A process that is
// stopped answers all the same. Never blocks; used from one thread.
#pragma once

#include <optional>

#include "asup/base/clock.h"
#include "asup/base/fd.h"
#include "asup/net/membership/address.h"

namespace asup::net {

// From this much silence on a host is asked.
inline constexpr Seconds kQuiet{3};

class HostProbe {
 public:
  // Any port of the host will do, whether somebody listens there or not.
  explicit HostProbe(SocketAddress address) : address_(std::move(address)) {}
  // Of a member, by the address that it listens on; none where that is no number.
  static std::optional<HostProbe> of(const Member& member);

  // Takes the answer that has come, and asks again where it is time. needs: called every second
  // or more often
  void look(Clock::time_point now);

  int unanswered() const { return unanswered_; }  // in a row
  // Together with the silence before it, ten seconds.
  bool unreachable() const { return unanswered_ >= kMostUnanswered; }

 private:
  static constexpr int kMostUnanswered = 7;

  void ask(Clock::time_point now);
  bool is_answered() const;
  void take_answer(Clock::time_point now);

  SocketAddress address_;
  Fd attempt_;
  bool waits_ = false;  // for an answer
  Clock::time_point next_{};
  int unanswered_ = 0;
};

}  // namespace asup::net
