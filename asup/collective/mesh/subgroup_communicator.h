// A communicator of all workers of a job that can do without some of them for a while: a worker
// that is late for a merge takes no part in its calls, and takes part again from the next one on.
// Calls come from the thread that trains.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "asup/collective/mesh/mesh_communicator.h"

namespace asup {

class SubgroupCommunicator : public Communicator {
 public:
  // Collective. The job must outlive it.
  SubgroupCommunicator(Job& job, CommunicatorOptions options);

  // Calls are among these workers from now on, by their ranks in the job, ascending, with ranks by
  // their places. `since`: the merge since which they have been the same, by which their calls
  // are told from those of other groups; 0: they are all, from the begin or since rebuild(). needs:
  // the same on each of them, and no call under way.
  void regroup(std::uint64_t since, const std::vector<int>& workers);

  // Calls end as late at this moment, or where another is silent for so long (Call::silence). It
  // holds until it is said otherwise, or rebuild(): by nobody, where the workers wait for each
  // other as long as it takes.
  void bound(Deadline until, Seconds silence);
  void unbound() { bound(Deadline::max(), Seconds(0)); }
  // A call has ended as late since regroup().
  bool was_late() const { return was_late_; }

  int rank() const override { return now().rank(); }
  int size() const override { return now().size(); }
  Work start(Call call) override { return now().start(bounded(std::move(call))); }
  Outcome run(Call call) override;
  // Memory that no other reaches: one that was halted in the middle of a call that the others have
  // given up must not write into a later one.
  std::unique_ptr<SharedMemory> allocate(std::size_t bytes) override;
  std::unique_ptr<Communicator> split(int color, int key) override {
    return now().split(color, key);
  }
  // Of all.
  Outcome rebuild(Seconds timeout) override;
  // Of those whom calls are among.
  void abandon() override { now().abandon(); }
  std::uint64_t bytes_moved() const override;

 private:
  // A group of earlier merges. It stays until all who were in it have come to another merge:
  // one of them may be halted, or slow, in the middle of a call, and use memory of ours.
  struct Former {
    std::unique_ptr<Communicator> communicator;
    std::set<int> not_seen;
  };

  Communicator& now() const { return some_ ? *some_ : *all_; }
  Call bounded(Call call) const;
  void leave();

  // Constant after construction.
  Job& job_;
  const CommunicatorOptions options_;
  const std::uint64_t number_;  // among those of the job

  std::unique_ptr<Communicator> all_, some_;
  std::uint64_t since_ = 0;   // of some_; 0: there is none
  std::vector<int> workers_;  // of some_
  std::vector<Former> former_;
  std::uint64_t bytes_before_ = 0;    // by former groups
  Deadline until_ = Deadline::max();  // bounds calls
  Seconds silence_{0};
  bool was_late_ = false;
};

}  // namespace asup
