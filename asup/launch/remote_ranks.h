// Ranks on another host, started by `asup agent` there, which we reach by the user's own ssh. The
// job, with its key, travels inside the encrypted connection, never on a command line. One thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "asup/base/fd.h"
#include "asup/launch/agent_protocol.h"
#include "asup/launch/host_job.h"
#include "asup/launch/lines.h"
#include "asup/launch/poll_loop.h"
#include "asup/launch/ranks.h"
#include "asup/launch/writer.h"

namespace asup::launch {

struct RemoteOptions {
  std::string host;         // as ssh understands it
  std::string ssh = "ssh";  // the command, with options of the user's
  std::string asup;         // path of asup on that host
  Seconds connect_timeout{10};
};

class RemoteRanks : public Ranks {
 public:
  // Throws BadInput where ssh itself cannot be started.
  RemoteRanks(PollLoop& loop, RankObserver& observer, const RemoteOptions& options,
              const HostJob& job);
  ~RemoteRanks() override;

  void signal(int number) override;
  void kill_rank(int rank) override;
  bool finished() const override { return ended_ && !out_ && !err_; }
  void pause_output(bool paused) override;
  void keep_time() override;

 private:
  void start_ssh(const RemoteOptions& options);
  void read_out();
  void read_err();
  void take(const std::string& line);
  void take(const AgentMessage& message);
  void remember(std::string words);
  void on_ssh_ended(int status);
  void close(Fd& fd);
  void fail(const std::string& why);
  void lose(const std::string& why);
  std::string last_words() const;  // of ssh and the host's shell; else how ssh ended

  PollLoop& loop_;
  RankObserver& observer_;
  const std::string host_, asup_;
  const net::Roles roles_;
  std::string hostname_;     // as the host calls itself
  std::map<int, int> pids_;  // of the ranks that run
  std::set<int> waiting_;    // ranks that have not ended
  bool greeted_ = false, failed_ = false, ended_ = false;
  int ssh_status_ = 0;  // as waitpid gives it, once ended_
  pid_t pid_ = -1;
  Fd in_, out_, err_;  // ssh's standard input, output, error
  std::unique_ptr<Writer> writer_;
  Lines out_lines_, err_lines_;
  std::deque<std::string> words_;  // the last lines that ssh or the host's shell said
};

// The ssh command line, for messages and tests: the user's command, our options, host, agent.
std::vector<std::string> ssh_command(const RemoteOptions& options);

}  // namespace asup::launch
