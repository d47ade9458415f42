// Ranks on this host: one process each, in a process group of its own, so that what a rank has
// started ends with it. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/fd.h"
#include "asup/launch/guard.h"
#include "asup/launch/host_job.h"
#include "asup/launch/poll_loop.h"
#include "asup/launch/ranks.h"

namespace asup::launch {

// Where a rank's output goes.
struct RankOutput {
  bool inherit = false;  // our own standard output and error
  std::string file;      // both streams into it; empty: to the observer
};

class LocalRanks : public Ranks {
 public:
  using Outputs = std::function<RankOutput(int rank)>;

  LocalRanks(PollLoop& loop, RankObserver& observer);
  ~LocalRanks() override;

  // Throws BadInput where the program cannot be started or a file cannot be written.
  void start(const HostJob& job, const Outputs& outputs);

  void signal(int number) override;
  void kill_rank(int rank) override;
  bool finished() const override;
  void pause_output(bool paused) override;
  void keep_time() override;

 private:
  struct Pipe {
    Fd fd;
    Stream stream;
  };
  struct Rank {
    Rank(int place, std::optional<int> server_number) : rank(place), server(server_number) {}
    const int rank;
    const std::optional<int> server;
    pid_t pid = -1;  // also the process group's number
    bool ended = false;
    bool group_gone = false;
    Deadline kill_at{};  // what is left of its group after it ended
    std::vector<Pipe> pipes;
    Fd note;  // why it failed, if it says so
  };

  void start_rank(Rank& rank, const HostJob& job, const RankOutput& output, int key_fd);
  Fd add_pipe(Rank& rank, Stream stream);
  void read_pipe(Rank& rank, Stream stream);
  void close_pipe(Rank& rank, Pipe& pipe);
  void on_ended(Rank& rank, int status);
  void sweep(Rank& rank);

  PollLoop& loop_;
  RankObserver& observer_;
  const std::string hostname_;
  Seconds grace_{0};
  Guard guard_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace asup::launch
