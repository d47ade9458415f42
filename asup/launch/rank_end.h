// How a rank's process ended, and which of several that ended badly is to blame. Values only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/membership/failure_note.h"

namespace asup::launch {

struct RankEnd {
  int rank = 0;  // place in the job: workers first, then servers
  int pid = 0;
  std::string hostname;
  int status = 0;                          // as waitpid gives it
  bool stopped = false;                    // it ended after we had told it to
  std::optional<int> server{};             // which of the servers it was; none: a worker
  bool excused = false;                    // the job went on without it
  std::optional<net::FailureNote> note{};  // in its own words

  bool ok() const { return status == 0; }
  bool killed() const;  // by a signal
  // What a job that fails because of it ends with: 2 where it says that its input was bad.
  int job_status() const { return note ? note->exit_status() : 1; }
  int signal() const;
  int exit_code() const;

  std::string who() const;  // "rank 1 (pid 4711 on alpha)", "server 0 (pid …)"
  std::string how() const;  // "exited with status 3", "was killed by signal 9 (SIGKILL)"
  // Both in a line: with a note "rank 1 (pid …) failed: its words"; the words alone where they tell
  // of others.
  std::string describe() const;
};

// "SIGKILL"; "signal 64" for one without a name.
std::string signal_name(int number);

// The end that explains the failure. One that says itself that it ended because of others explains
// it only where there is no other. Among the rest: the first of `lost`, those that the coordinator
// missed, in that order (one that died without goodbye drags others after it, which say goodbye);
// then whoever was killed by a signal; then whoever ended first. Ends that we caused or excused
// explain nothing. `ends` is in the order in which they were seen.
std::optional<RankEnd> culprit(const std::vector<RankEnd>& ends, const std::vector<int>& lost);

}  // namespace asup::launch
