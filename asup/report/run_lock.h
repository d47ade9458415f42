// Says that a process writes a run's folder: a lock on a file in it, which goes with the process,
// however that ends. Where a file system knows no locks, nobody is kept out. Used from one thread.
#pragma once

#include <string>

#include "asup/base/clock.h"
#include "asup/base/fd.h"

namespace asup::report {

class RunLock {
 public:
  // Waits so long for whoever writes the folder to end: one that was killed may just be doing so.
  // Throws BadInput that names it. `who` is this process, for others to read.
  static RunLock take(const std::string& folder, const std::string& who, Seconds patience);
  // The same, and leaves it to others.
  static void check_free(const std::string& folder, Seconds patience);

 private:
  explicit RunLock(Fd file) : file_(std::move(file)) {}

  Fd file_;
};

}  // namespace asup::report
