// The head's work beside its shard: hears what workers and servers say, asks the scheduler
// (pace/scheduler.h), and makes of its decisions commands for all servers and releases for workers.
// The scheduler knows teams (teams.h): a push is there when all members' are, and what it decides
// of a team is for all of them. Runs under the mesh's lock.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/ps/command.h"
#include "asup/ps/noise_watch.h"
#include "asup/ps/pace/scheduler.h"
#include "asup/ps/server_setup.h"

namespace asup::ps {

class ServerCoordinator {
 public:
  // Those who carry out what it says.
  class Delegate {
   public:
    virtual ~Delegate() = default;
    virtual void give_command(const Command& command) = 0;  // to all servers
    virtual void tell(int worker, const Release& release) = 0;
  };

  // `version`: of the parameters at the start.
  ServerCoordinator(int workers, int servers, const ServerSetup& setup, std::uint64_t version,
                    Delegate& delegate);

  // `met`: at the sync point that it comes from.
  void arrived(int worker, const std::set<int>& met);
  // What is wrong with the push, where something is; then it counts for nothing.
  std::string committed(int worker, const Commit& commit);
  void staged(int worker, std::uint64_t push);  // by one more server
  bool left(int worker);                        // whether its team had a push under way
  // Those who push with this worker, itself included.
  const std::vector<int>& team_of(int worker) const { return teams_.members(teams_.of(worker)); }
  // An update took its servers so long.
  void updated(double seconds) { head_.updated(seconds * servers_); }
  // One more server has compared the pushes of the update to this version.
  void found(std::uint64_t version, const NoiseSquares& squares) { noise_.found(version, squares); }
  void ask_sync_point();

  // When to call tick() if nothing happens before.
  Deadline wake() const;
  void tick();

  std::string report() const;  // JSON

 private:
  void carry_out(const pace::Decisions& decisions);
  double now() const { return seconds_since(began_); }

  struct Arriving {
    pace::Push push;            // of the team, as far as its members have committed theirs
    std::size_t committed = 0;  // members', here
    std::size_t staged = 0;     // members' by servers
  };
  // Those of a team that have come, and the teams that they met.
  struct Coming {
    std::set<int> members, met;
  };

  std::string add_to_push(Arriving& arriving, const Commit& commit) const;

  const int servers_;
  const Teams teams_;
  Delegate& delegate_;
  const Clock::time_point began_ = Clock::now();
  pace::Scheduler head_;
  const bool leases_samples_, pushes_tell_noise_;
  NoiseWatch noise_;
  std::optional<bool> describes_;  // whether workers say how many samples a push is of
  // By team.
  std::map<int, Arriving> arriving_;  // pushes that not all servers have
  std::map<int, Coming> coming_;      // where not all members have
  std::set<int> gone_;
  std::map<int, bool> at_sync_point_;
  std::map<int, std::uint64_t> leases_;
};

}  // namespace asup::ps
