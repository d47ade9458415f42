// `asup bench collective --together N`: what it costs to all-reduce a gradient of N tensors, by one
// call for all of them and by a call for each, against one buffer of as many bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::bench {

class Together {
 public:
  // `parts` buffers of about `bytes` in all, in memory that all ranks reach where `shared`.
  Together(Communicator& communicator, std::size_t bytes, int parts, bool shared);

  // Results are checked first. Seconds of as many rounds as fill `seconds`, in ascending order.
  std::vector<double> times_of_one_call(double seconds);
  std::vector<double> times_of_calls(double seconds);  // all are started, then waited for

 private:
  std::vector<double> times(double seconds, const std::function<void()>& round);
  void check_result(const std::function<void()>& round);

  Communicator& communicator_;
  std::unique_ptr<SharedMemory> reachable_;
  std::vector<float> own_;
  std::span<float> values_;
  std::vector<Buffer> parts_;
};

}  // namespace asup::bench
