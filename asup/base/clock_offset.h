// How far another process's clock is from ours, found by messages that go there and back, as NTP
// has it (Mills 1991): of some dozens, the one with the shortest way tells most. Between two such
// estimates the clocks drift apart evenly. Values only; safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace asup {

// In nanoseconds.
struct RoundTrip {
  std::int64_t sent = 0;      // by our clock
  std::int64_t answered = 0;  // by theirs
  std::int64_t received = 0;  // by ours

  std::int64_t duration() const { return received - sent; }
};

// In nanoseconds.
struct ClockOffset {
  std::int64_t at = 0;      // by our clock
  std::int64_t offset = 0;  // theirs is ours plus this
  std::int64_t error = 0;   // at most
};

// Of the shortest. needs: one at least
ClockOffset estimate_offset(std::span<const RoundTrip> trips);

// Turns times by our clock into times by theirs.
class ClockMap {
 public:
  ClockMap() = default;  // one clock
  // Estimates at different times, ascending.
  explicit ClockMap(std::vector<ClockOffset> estimates) : estimates_(std::move(estimates)) {}

  // Between two estimates the offset changes evenly; before the first and after the last, it is
  // theirs.
  std::int64_t operator()(std::int64_t ours) const;
  std::int64_t offset_at(std::int64_t ours) const;

 private:
  std::vector<ClockOffset> estimates_;
};

}  // namespace asup
