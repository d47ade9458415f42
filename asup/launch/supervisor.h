// Watches over the ranks of a running job, on whichever hosts, and decides when it has ended and
// how: the failure policy of launch.h. Does no I/O besides signals and notes. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "asup/launch/launch.h"
#include "asup/launch/output.h"
#include "asup/launch/ranks.h"

namespace asup::launch {

class Supervisor : public RankObserver {
 public:
  Supervisor(const LaunchOptions& options, const net::Roles& roles, Output& output);

  void add(std::unique_ptr<Ranks> ranks) { ranks_.push_back(std::move(ranks)); }
  // Called before a rank's end is judged: what the coordinator has said by then may explain it.
  void before_rank_ends(std::function<void()> action) { before_rank_end_ = std::move(action); }
  // Called with each rank that has ended and how; for the coordinator.
  void when_rank_ends(std::function<void(const RankEnd&)> action) {
    on_rank_end_ = std::move(action);
  }

  // All ranks have ended, or cannot be made to; where all workers are lost and others go on, these
  // have ended too.
  bool finished() const;
  void keep_time();
  JobResult result() const;

  void take_signal(int number);
  // From the coordinator: one more member is there; all are; they will never be; one is gone.
  void take_admitted() { ++admitted_; }
  void take_joined() { joined_ = true; }
  void take_join_failure(const std::string& why);
  void take_loss(int rank);
  // The others go on without one that may not have ended. A late one is killed where it does not
  // end by itself, such as one that is stopped; others may yet be those that go on.
  void take_exclusion(int rank, const std::string& why, bool late);
  // One that has not ended is not heard any more; is heard again.
  void take_silence(int rank) { silent_.insert(rank); }
  void take_word(int rank) { silent_.erase(rank); }
  // So many workers of other launchers, which have joined, are in the job now.
  void take_guests(std::size_t count);

  void on_started(int rank, int pid, const std::string& hostname) override;
  void on_output(int rank, Stream stream, std::string_view bytes) override;
  void on_ended(const RankEnd& end) override;
  void on_host_failed(const std::string& why) override;
  void on_host_lost(const std::string& why, const std::vector<int>& ranks) override;

 private:
  // Begins the end of the job: after `pause`, `number` goes to all ranks, and SIGKILL after the
  // grace.
  void stop(int number, Seconds pause);
  void signal_all(int number);
  bool can_do_without(const std::vector<int>& ranks) const;
  void let_go(const std::vector<int>& ranks, const std::string& why);
  void count_ended(int rank);
  void look_for_workers();
  bool guests_alone_go_on() const;
  void tell_of_start();
  void end_servers_left_over();
  void end_the_silent();
  void end_the_excluded();
  std::string blame(const RankEnd& end) const;
  JobResult result_without_the_lost() const;

  const LaunchOptions& options_;
  const net::Roles roles_;
  Output& output_;
  std::vector<std::unique_ptr<Ranks>> ranks_;
  std::function<void()> before_rank_end_;
  std::function<void(const RankEnd&)> on_rank_end_;

  std::vector<RankEnd> ends_;
  std::vector<int> missed_;  // by the coordinator, in this order
  std::vector<int> let_go_;  // workers that the job went on without
  std::set<int> running_;    // that have not ended
  std::set<int> silent_;
  std::map<int, Deadline> excluded_;    // that have not ended, until when they may
  std::optional<Deadline> silent_due_;  // once all workers that are left of others are silent
  int admitted_ = 0;                    // members that have joined, until all have
  bool joined_ = false;
  bool start_told_ = false;
  Deadline start_news_at_;
  std::optional<Deadline> servers_due_;  // once no worker runs
  std::size_t guests_ = 0;               // workers of other launchers
  bool guests_went_on_ = false;          // without any of ours
  std::string failure_;             // of the job as a whole: a host, or ranks that never joined
  std::optional<int> interrupted_;  // by this signal
  std::optional<int> stop_signal_;  // the end has begun, with this signal
  bool stop_sent_ = false, killed_ = false;
  Deadline stop_at_{}, kill_at_{}, give_up_at_{};
};

}  // namespace asup::launch
