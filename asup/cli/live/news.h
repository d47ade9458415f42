// What viewers of a live page are told, in the order in which it happens. Safe from any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "asup/base/clock.h"

namespace asup::cli {

class News {
 public:
  // Where a viewer is: what it has been told.
  struct Place {
    std::uint64_t row = 0;
    std::uint64_t version = 0;
    Clock::time_point whole_due{};  // no sooner, unless the run has ended
  };
  struct Update {
    bool whole = false;             // the run is to be read anew, with all rows
    std::vector<std::string> rows;  // else these, as JSON
    bool last = false;              // nothing will follow
  };

  void add_row(std::string row);
  void change();  // more than a row shows: a test's pictures, the end
  void end();

  // Waits for something new for up to a second, and puts the viewer behind it.
  Update next(Place& place);

 private:
  bool has_news(const Place& place) const;  // needs: mutex_
  bool is_whole_due(const Place& place) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Protected by mutex_.
  std::deque<std::string> rows_;  // the last ones
  std::uint64_t first_row_ = 0;   // the number of rows_.front()
  std::uint64_t version_ = 1;
  bool ended_ = false;
};

}  // namespace asup::cli
