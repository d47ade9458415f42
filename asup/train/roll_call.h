// Who is left of a run's workers, where it goes on without those that are lost. The run folder is
// kept by the lowest of them, as long as that one can see it; with servers, by rank 0 alone. Used
// from the thread that trains.
#pragma once

#include <functional>
#include <vector>

#include "asup/train/run.h"

namespace asup::train {

class RollCall {
 public:
  // Collective. `rank`: this worker's in the job.
  RollCall(Run& run, int rank);

  // Does `together`, in which all workers meet; where somebody is lost in it, again from its begin,
  // by those who are left. Nobody returns before all have done it; but some may have returned when
  // others find that somebody is lost, and `call_back` is to bring them to the next meeting.
  // Throws what else goes wrong. Collective.
  void meet(
      const std::function<void()>& together, const std::function<void()>& call_back = [] {});

  // After JobFailed, by those who are left, each wherever it was: whether somebody was lost and
  // they are together again, with communicators of their own, so that they can go on. Collective.
  bool regroup();

  // So many meetings took place without this worker, which was late for them.
  void missed(std::int64_t meetings);

  const std::vector<int>& left() const { return workers_; }  // by their ranks in the job

 private:
  // What a worker says when all find out who is there.
  struct Word {
    std::int64_t rank = 0;  // in the job
    std::int64_t met = 0;   // meetings that it has ended
    bool late = false;      // for the last of these
    bool sees_folder = false;
  };

  bool rebuild();
  std::vector<Word> hear_all();

  Run& run_;
  const int rank_;
  std::vector<int> workers_;
  std::int64_t met_ = 0;
  bool late_ = false;    // for the last meeting
  bool behind_ = false;  // others have ended the meeting that this one is in
};

}  // namespace asup::train
