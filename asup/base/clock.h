// Monotonic time. Deadlines are points on it, so that nested waits share one limit.
#pragma once

#include <chrono>

namespace asup {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using Seconds = std::chrono::duration<double>;

inline Deadline after(Seconds seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
}

inline double seconds_since(Clock::time_point start) {
  return Seconds(Clock::now() - start).count();
}

}  // namespace asup
