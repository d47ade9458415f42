// One process's membership of a job: who it is, who the others are, and the links to them.
//
// join() finds out from the launcher's environment (asup run, torchrun, Slurm, Open MPI) and
// returns when every member is there and every link is up. Two jobs may live in one process, though
// only one of them over MPI. A Job is used from one thread; its mesh has a loop thread of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/net/membership/join_options.h"
#include "asup/net/membership/roster.h"

namespace asup {

namespace net {
class Mesh;
}

class Job {
 public:
  // Throws BadInput when the environment is wrong, JobFailed naming the ranks that did not come.
  // From then on an exception that nobody catches ends this process with its text, which the
  // launcher tells, and with status 2 for BadInput or else 1 (net/membership/failure_note.h); a
  // terminate handler that the program has set before stays in charge.
  static Job join();
  static Job join(const net::JoinOptions& options);

  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  ~Job();  // says goodbye to the others

  int rank() const;        // a worker's, from 0 to size() - 1; throws BadInput in a server
  int size() const;        // workers
  int servers() const;     // servers besides them
  bool is_server() const;  // this process is one of those
  int member() const;      // place in the mesh: workers first, then servers
  const net::Roster& roster() const;
  const net::JoinOptions& options() const;
  net::Mesh& mesh();

  // Processes wait to join this job as workers. When all members call renew(), the job goes on with
  // them.
  bool newcomers() const;
  // They are refused from now on, with this reason; without it, they wait.
  void refuse_newcomers(const std::string& why);
  // After a PeerLost: those who are gone are workers that the job can do without, since its
  // launcher said so, or since they had joined later. When all that are left call renew(), it goes
  // on. Waits for what the coordinator has to say.
  bool can_go_on_without_the_lost() const;
  // Of the workers `before`, those in `left` have agreed to go on. Throws JobFailed where they may
  // not, since others may do so too (net/membership/parting.h). Waits for the coordinator's words.
  // Of the others, who may still live and reaches memory of this process is killed, and has ended.
  void go_on_with(const std::vector<int>& left, const std::vector<int>& before);
  // Throws JobFailed where the others go on without this member, or it is known that those who are
  // left may not go on. Quick.
  void require_place() const;
  // Collective. Begins the next generation: rank and size change, and links are new, so that all
  // communicators and whatever else was made from this job must be gone. False where the job has
  // come to its end instead, which servers learn here. Throws JobFailed.
  bool renew();
  // From 1.
  std::uint64_t generation() const { return roster().generation; }

  // Comes back when no worker is linked to this member any more, however each has ended.
  void wait_for_workers_to_leave();

  // Ids of communicators, the same on all ranks as long as they make them in the same order.
  std::uint64_t next_communicator_id();
  // The same for what workers and servers do together, counted apart: servers make no
  // communicators.
  std::uint64_t next_service_id();

 private:
  struct State;
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace asup
