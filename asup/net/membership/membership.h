// A member's side of the coordinator: it joins the job, learns who the others are, and hears what
// becomes of them.
//
// Whether a member is gone is the coordinator's to say; links that end or fall silent are told to
// it. Where the coordinator itself is out of reach, each member goes by its own links, and
// parting.h says whether those who are left may go on.
// Who is late goes when the coordinator has heard of it from all who are left (late_reports.h).
//
// A Membership is used from one thread. It has a thread of its own, which sends the heartbeats and
// calls the callbacks.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "asup/base/clock.h"
#include "asup/net/membership/join_options.h"
#include "asup/net/membership/link_news.h"
#include "asup/net/membership/roster.h"

namespace asup::net {

// Called on the membership's thread; must be quick and must not throw.
struct MembershipCallbacks {
  // The others go on without it; why, where more is known than that its process ended.
  std::function<void(const Member&, const std::string& why)> on_lost;
  std::function<void(const Member&)> on_left;  // said goodbye
  // The others go on without this one, for this reason.
  std::function<void(const std::string&)> on_left_out{};
};

// A member that is gone, and what is known of its end.
struct Gone {
  enum class How : std::uint8_t {
    left,    // it said goodbye
    ended,   // it ended without
    unknown  // it is out of reach, or was left out, and may go on elsewhere
  };
  Member member;
  How how = How::unknown;
  std::string why{};  // of the unknown
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
  // What the coordinator says about the job's links.
  TlsMode tls() const;

  // Others wait for the next generation.
  bool newcomers() const;
  // They are refused from now on, with this reason.
  void refuse_newcomers(const std::string& why);
  // Members that were lost, or have left, in this generation.
  std::vector<Gone> gone() const;
  // Nothing more is heard from the coordinator.
  bool lost_coordinator() const;
  // Why this member has no right to go on: the others go on without it, or there is no coordinator
  // to say that they do not, and those who are left are no majority. Empty: it has.
  std::string why_out() const;
  // Those who are left of the workers have agreed to go on without the others.
  void agree(const std::vector<int>& workers);

  // Of the link to a member, by its rank. From any thread, unlike the rest.
  void tell_of_link(int rank, LinkNews news);
  // These workers, by rank, did not come to where this one is, for as long as a call may take.
  // Until it agrees to go on. From any thread.
  void miss(const std::vector<int>& workers);
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
