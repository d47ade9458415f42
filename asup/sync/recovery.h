// Recovery from the loss of workers: those who are left rebuild their communicators, agree on who
// they are, and go on. Used from the thread that trains.
//
// Two groups never both go on (net/membership/parting.h). Who does not come before the deadline of
// the communicators, such as a process that is stopped, is lost too, if all others miss it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/net/job.h"

namespace asup::sync {

class Recovery {
 public:
  // `communicators` are of all workers of the job, and are rebuilt in this order; then
  // `regroup_users` sees to what uses them, such as LocalUpdateReplica::regroup(). Everything must
  // outlive it.
  Recovery(Job& job, std::vector<Communicator*> communicators,
           std::function<void()> regroup_users = {});

  struct Change {
    std::vector<int> lost;            // ranks in the job, ascending
    std::vector<std::int64_t> notes;  // of those who are left
  };
  // After JobFailed, by all who are left, each wherever it was; each has a note for the others.
  // What changed, when they are together again; nothing where nobody was lost, or some do not come.
  // Throws JobFailed where those who are left may not go on, or their users cannot. Collective.
  std::optional<Change> regroup(std::int64_t note = 0);

  // Throws JobFailed where this worker may not go on (Job::require_place). Quick.
  void require_place() const { job_.require_place(); }

  const std::vector<int>& left() const { return left_; }  // by their ranks in the job

 private:
  bool rebuild();
  std::size_t size() const { return static_cast<std::size_t>(communicators_.front()->size()); }
  std::vector<std::int64_t> gather(std::int64_t own);

  Job& job_;
  const std::vector<Communicator*> communicators_;
  const std::function<void()> regroup_users_;
  std::vector<int> left_;
};

}  // namespace asup::sync
