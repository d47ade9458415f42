// What happens to a job, drawn at random: workers, or a server, are killed, some at once or while
// the others recover, and halted; others join, and may be killed at the door; links between hosts
// are cut, for good or for a while. Used from one thread.
#pragma once

#include <random>
#include <set>

#include "asup/bench/faults/watch.h"

namespace asup::bench {

struct FaultCounts {
  int kills = 0, halts = 0, joins = 0, cuts = 0;
  int all() const { return kills + halts + joins + cuts; }
  void add(const FaultCounts& other);
};

class Mischief {
 public:
  // `hosts`: those of the job, where it has some.
  Mischief(const FaultyJob& job, Watch& watch, VirtualHosts* hosts);

  // Until the job has had enough, has ended or hangs. The links are whole again after mend().
  void make();
  void mend();
  const FaultCounts& counts() const { return counts_; }
  // What is lost, in words of the launcher's: of a way that ends, its last line names it.
  const std::string& victim() const { return victim_; }
  // Newcomers alone have brought it to its end.
  bool lost_all_who_began() const;
  // Halted or cut off for a while alone: nothing is lost.
  bool lost_nothing() const { return counts_.kills == 0 && !cut_for_good_; }

 private:
  int below(int most);
  bool wait_for_moment(std::int64_t least, int faults);
  bool strike();
  void halt(pid_t victim);
  bool lose();
  void kill_one(pid_t victim);
  std::vector<pid_t> victims() const;
  void let_join();
  void cut_link();

  const FaultyJob& job_;
  Watch& watch_;
  VirtualHosts* const hosts_;
  FaultCounts counts_;
  std::string victim_;
  std::set<pid_t> first_;  // the launcher's own workers
  std::vector<int> down_;  // hosts whose links are
  bool cut_for_good_ = false;
  std::mt19937_64 random_;
};

}  // namespace asup::bench
