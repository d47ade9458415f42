// A communicator of all workers of a job that can do without some of them for a while: who is late
// for a meeting is no part of its calls, and of those after it is one again. Calls come from the
// thread that trains.
#pragma once

#include <memory>
#include <vector>

#include "asup/collective/mesh_communicator.h"

namespace asup::train {

class MeetingCommunicator : public Communicator {
 public:
  // Collective. The job must outlive it.
  MeetingCommunicator(Job& job, CommunicatorOptions options);

  // Calls are among these workers from now on, by their ranks in the job, ascending, with ranks by
  // their places; or among all again. needs: the same on each of them, no call under way, and a
  // number that no other meeting has.
  void meet(std::uint64_t meeting, const std::vector<int>& workers);
  void meet_all();

  int rank() const override { return now().rank(); }
  int size() const override { return now().size(); }
  Work start(Call call) override { return now().start(std::move(call)); }
  Outcome run(Call call) override { return now().run(std::move(call)); }
  std::unique_ptr<SharedMemory> allocate(std::size_t bytes) override {
    return now().allocate(bytes);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return now().split(color, key);
  }
  // Of all.
  Outcome rebuild(Seconds timeout) override;
  std::uint64_t bytes_moved() const override;

 private:
  Communicator& now() const { return some_ ? *some_ : *all_; }

  // Constant after construction.
  Job& job_;
  const CommunicatorOptions options_;
  const std::uint64_t number_;  // among those of the job

  std::unique_ptr<Communicator> all_, some_;
  std::uint64_t bytes_before_ = 0;  // by groups of some that have met before
};

}  // namespace asup::train
