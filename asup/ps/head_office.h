// The head's work beside its shard: hears what workers and servers say, asks the head's mind
// (pace/head.h), and turns its decisions into orders for all servers and releases for workers. Runs
// under the mesh's turn.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/ps/order.h"
#include "asup/ps/pace/head.h"
#include "asup/ps/setup.h"

namespace asup::ps {

class HeadOffice {
 public:
  // Those who carry out what it says.
  class Staff {
   public:
    virtual ~Staff() = default;
    virtual void give_order(const Order& order) = 0;  // to all servers
    virtual void tell(int worker, const Release& release) = 0;
    virtual void tell_saved(int worker, const std::string& complaint) = 0;
  };

  // `version`: of the parameters at the start.
  HeadOffice(int workers, int servers, const Setup& setup, std::uint64_t version, Staff& staff);

  // `met`: at the fence that it comes from.
  void arrived(int worker, const std::set<int>& met);
  // What is wrong with the push, where something is; then it counts for nothing.
  std::string committed(int worker, const Commit& commit);
  void staged(int worker, std::uint64_t push);  // by one more server
  void left(int worker);
  void ask_fence();

  void save(int worker, const std::string& path);
  void saved(const std::string& complaint);  // by one more server

  // When to call tick() if nothing happens before.
  Deadline wake() const;
  void tick();

  std::string report() const;  // JSON

 private:
  void carry_out(const pace::Decisions& decisions);
  double now() const { return seconds_since(began_); }

  struct Arriving {
    pace::Push push;
    int servers = 0;         // that have it
    bool committed = false;  // here
  };

  const int servers_;
  Staff& staff_;
  const Clock::time_point began_ = Clock::now();
  pace::Head head_;
  std::map<int, Arriving> arriving_;  // by worker: pushes that not all servers have
  std::map<int, bool> at_fence_;
  std::map<int, std::uint64_t> leases_;
  struct Saving {
    int worker = 0;
    int servers = 0;  // that have
    std::string complaint;
  };
  std::optional<Saving> saving_;
};

}  // namespace asup::ps
