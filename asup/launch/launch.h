// Starts a job and sees it through: its ranks, their output, signals, and who is to blame when it
// fails. `asup run` is this on a command line; `asup train --workers N` uses it too.
//
//   - The coordinator runs inside the launcher.
//   - A rank that exits with another status than 0, or by a signal, ends the job: the others have a
//     moment to say what they lost, then get SIGTERM, and SIGKILL when the grace is over. With
//     OnLoss::go_on a worker that does so once all have joined is told of, and the job goes on
//     without it; a server still ends it.
//   - Servers end by themselves when the last worker has; one that does not is killed after the
//     grace.
//   - Others may join the job: a launcher with `join` starts ranks only, which the job takes in
//   when
//     it can (net/membership/coordinator.h). It sees to these ranks and nothing else.
//   - SIGINT, SIGTERM and SIGHUP are passed on to all ranks; a second one, or the end of the grace,
//     kills them. The exit status is then 128 plus the signal's number (130 after Ctrl-C).
//   - No rank, and nothing a rank has started in its process group, outlives the launcher.
//
// run() belongs on the main thread of a process that has no other threads yet: it takes the signals
// for itself, and reaps every child of the process while it runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/launch/hosts.h"
#include "asup/launch/rank_end.h"

namespace asup::launch {

// What becomes of a job that loses a worker.
enum class OnLoss : std::uint8_t { end, go_on };

struct LaunchOptions {
  std::vector<std::string> program;  // and its arguments
  int ranks = 0;                     // 0: one, or as many as the hosts have slots
  int servers = 0;                   // processes beside the ranks that keep what those share
  std::vector<std::string> server_program{};  // empty: `asup server`
  std::vector<HostSpec> hosts;                // none: all ranks on this host

  std::string interface;   // for the coordinator and the links; see net::interface_address
  std::uint16_t port = 0;  // of the coordinator; 0: any that is free
  std::string links;       // auto, shm or tcp; empty: the ranks' own default
  std::string tls;         // auto, on or off; empty: as ASUP_TLS says, or auto
  Seconds join_timeout{60};
  Seconds call_timeout{300};
  Seconds start_news{10};  // between two lines about a start that takes long
  Seconds grace{5};        // between being asked to end and being killed
  OnLoss on_loss = OnLoss::end;

  bool prefix = true;              // "[3] " before each line of rank 3
  std::string output_dir;          // rank_N.log and server_N.log there, instead of our own output
  bool program_joins = false;      // surely: who waits for its start is told how far it is
  bool inherit_rank_zero = false;  // rank 0 writes straight to our terminal: for live displays
  std::vector<std::string> environment;  // for every rank: "NAME" of ours, or "NAME=value"

  std::string ssh = "ssh";        // the command for other hosts, with options
  std::string remote_asup;        // path of asup there; empty: the same as here
  std::string name = "asup run";  // before our own messages
  std::string job;                // its name, for those who join it; empty: our pid
  std::string join;  // not a job of its own: the ranks join this one, by name or host:port
  bool verbose = false;
};

struct JobResult {
  int exit_status = 0;  // 0: done, 1: failed, 2: by bad input, 128 + n: ended by signal n
  std::string message;  // why, or who is missing, in one line; empty where all went well
  std::optional<RankEnd> culprit;

  // The rank to blame found it in what it was given, by its exit status.
  bool is_bad_input() const;
};

// Throws BadInput where the job cannot even be started.
JobResult run(const LaunchOptions& options);

}  // namespace asup::launch
