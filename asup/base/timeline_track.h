// A row of a timeline: events in a ring, where new ones take the place of the oldest.
//
// One thread at a time records, and waits for nobody; another may take what was recorded meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "asup/base/timeline_event.h"

namespace asup {

class TimelineTrack {
 public:
  // `capacity`: events; rounded up to a power of two.
  TimelineTrack(std::string name, std::size_t capacity);

  const std::string& name() const { return name_; }

  // Whether it is the caller's from now on, until it gives it back.
  bool claim() { return !claimed_.exchange(true, std::memory_order_acquire); }
  void give_back() { claimed_.store(false, std::memory_order_release); }

  void record(const TimelineEvent& event);
  // A copy of a name that is not static, for events of this track: for the thread that records.
  // Beyond so many different ones, "…".
  const char* keep(std::string_view name);

  // What was recorded since the last time, oldest first, and how much of it was lost. From one
  // thread at a time.
  struct Taken {
    std::vector<TimelineEvent> events;
    std::uint64_t dropped = 0;
  };
  Taken take();

 private:
  struct Free {
    void operator()(std::uint64_t* memory) const { std::free(memory); }
  };

  std::uint64_t* slot(std::uint64_t number) const;

  const std::string name_;
  const std::uint64_t capacity_;
  const std::unique_ptr<std::uint64_t[], Free> words_;  // untouched pages take no memory
  std::atomic<bool> claimed_{false};
  std::atomic<std::uint64_t> recorded_{0};
  std::uint64_t taken_ = 0;
  std::set<std::string, std::less<>>
      names_;  // of the thread that records; they stay where they are
};

}  // namespace asup
