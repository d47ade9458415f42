// Who is left of a run's workers, where it goes on without those that are lost. The run folder is
// kept by the lowest of them, as long as that one can see it; with servers, by rank 0 alone. Used
// from the thread that trains.
#pragma once

#include <functional>
#include <vector>

#include "asup/train/state/run_state.h"

namespace asup::train {

class RollCall {
 public:
  // Collective. `rank`: this worker's in the job.
  RollCall(RunState& run, int rank);

  // Does `together`, in which all workers meet; where somebody is lost in it, again from its begin,
  // by those who are left. Nobody returns before all have done it. Throws what else goes wrong.
  // Collective.
  void meet(const std::function<void()>& together);

  // The same for meetings that have numbers, which rise: `hold` does what belongs to one, sees to
  // it that nobody returns before all have done it, and returns its number. Some may have returned
  // when others find that somebody is lost, and `call_back` is to bring them to the next meeting.
  // Returns the number of the last meeting that was held, by this worker or by others who are left.
  std::int64_t meet(const std::function<std::int64_t()>& hold,
                    const std::function<void()>& call_back);

  // After JobFailed, by those who are left, each wherever it was: whether somebody was lost and
  // they are together again, with communicators of their own, so that they can go on. Collective.
  bool regroup();

  // The meeting of this number took place without this worker.
  void missed(std::int64_t meeting);

  const std::vector<int>& left() const { return workers_; }  // by their ranks in the job

 private:
  // What a worker says when all find out who is there.
  struct Word {
    std::int64_t rank = 0;  // in the job
    std::int64_t met = 0;   // the number of the last meeting that it has ended
    bool late = false;      // for the last of these
    bool sees_folder = false;
  };

  bool rebuild();
  std::vector<Word> hear_all();

  RunState& run_;
  const int rank_;
  std::vector<int> workers_;
  std::int64_t met_ = 0;
  bool late_ = false;       // for the last meeting
  std::int64_t ahead_ = 0;  // of the last meeting that others have ended, and this one has not
};

}  // namespace asup::train
