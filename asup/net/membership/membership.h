// A member's side of the coordinator: it joins the job, learns who the others are, and hears what
// becomes of them.
//
// A Membership is used from one thread. It has a thread of its own, which sends the heartbeats and
// calls the callbacks.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "asup/base/clock.h"
#include "asup/net/membership/join_options.h"
#include "asup/net/membership/roster.h"

namespace asup::net {

// Called on the membership's thread; must be quick and must not throw.
struct MembershipCallbacks {
  std::function<void(const Member&)> on_lost;  // ended without goodbye
  std::function<void(const Member&)> on_left;  // said goodbye
};

class Membership {
 public:
  // Comes back when all members of the job are there. `self` says where this one listens (the
  // addresses); place, process and host are filled in. With options.joins: when the job has taken
  // this process in. Throws JobFailed, naming the ranks that did not come, or BadInput where this
  // process is not one of the job's: another key, a rank that is taken, another size.
  static Membership join(const JoinOptions& options, Member self);

  Membership(Membership&&) noexcept;
  Membership& operator=(Membership&&) noexcept;
  ~Membership();  // leaves

  const Roster& roster() const;
  const Member& self() const;
  // The job's key: that of the options, or the one that rank 0 handed out.
  const Key& key() const;

  // Others wait for the next generation.
  bool newcomers() const;
  // They are refused from now on, with this reason.
  void refuse_newcomers(const std::string& why);
  // Workers that were lost, or have left, in this generation.
  std::vector<Member> gone_workers() const;
  // The job began with it; else it joined later.
  bool is_founder(const Member& member) const;

  // Waits until all members that are left do the same, and returns the next generation's roster: of
  // those members and the newcomers. `self` says where this one listens now. Nothing where the job
  // has come to its end meanwhile. Throws JobFailed, naming those that did not come.
  std::optional<Roster> renew(const Member& self, Deadline deadline);

  // Says from now on who is lost and who has left, beginning with those that are already.
  void watch(MembershipCallbacks callbacks);

  // Says goodbye; no callback runs after it. Where this member keeps the coordinator, the others
  // hear that it closes, and go on without.
  void leave();

 private:
  class State;
  explicit Membership(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace asup::net
