// The processes of a job on one host, wherever it is, and who hears what they do. A process goes by
// its place in the job, `rank`: workers first, then servers. One thread: the launcher's loop, or
// the agent's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "asup/launch/rank_end.h"

namespace asup::launch {

enum class Stream { out, err };

class RankObserver {
 public:
  virtual ~RankObserver() = default;
  virtual void on_started(int rank, int pid, const std::string& hostname) = 0;
  // A piece of what the rank wrote, as it came; an empty one when the stream has ended.
  virtual void on_output(int rank, Stream stream, std::string_view bytes) = 0;
  virtual void on_ended(const RankEnd& end) = 0;
  // The host's ranks could not be started; `why` names the host.
  virtual void on_host_failed(const std::string& why) = 0;
  // The host is no longer in reach, and with it those of its ranks that had not ended.
  virtual void on_host_lost(const std::string& why, const std::vector<int>& ranks) = 0;
};

class Ranks {
 public:
  virtual ~Ranks() = default;  // ends what still runs

  virtual void signal(int number) = 0;   // to every rank and all it has started
  virtual void kill_rank(int rank) = 0;  // and all it has started, where it is one of these
  virtual bool finished() const = 0;     // all have ended, and their output has been read
  virtual void pause_output(bool paused) = 0;
  virtual void keep_time() = 0;  // call now and then
};

}  // namespace asup::launch
