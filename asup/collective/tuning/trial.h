// One call that is made again and again to be timed, its result checked first. Collective: all
// ranks make the same trials in the same order. Used from one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::collective::tuning {

// Collectives that a trial knows how to make and check.
bool has_trial(Collective collective);

class Trial {
 public:
  // Of about `bytes` of floats in the whole, in memory that all ranks reach where `shared`.
  Trial(Communicator& communicator, Collective collective, std::size_t bytes, bool shared);

  // Runs it once on known values by this algorithm. Throws Error where a result is wrong.
  void check_result(const std::string& algorithm);
  // Seconds of each of as many calls as fill `seconds`, at least 3, in ascending order. Where a
  // rank may end before others have begun, all begin together, and the last to end counts; else
  // they follow each other, by this rank's clock.
  std::vector<double> times(const std::string& algorithm, double seconds);
  // Their median.
  double time(const std::string& algorithm, double seconds);

  // What the communicator is asked, for those who price it. `shared` as it turned out to be.
  Spec spec() const;

 private:
  Buffer buffer(std::size_t count, bool shared);
  double run();

  Communicator& communicator_;
  const bool shared_;
  Call call_;
  std::vector<std::unique_ptr<SharedMemory>> reachable_;
  std::vector<std::vector<float>> own_;
};

}  // namespace asup::collective::tuning
