// The signals that a launcher handles, as a descriptor to poll: SIGINT, SIGTERM, SIGHUP and
// SIGCHLD.
//
// While it lives, they are blocked in the calling thread and those it starts (make it before any
// other thread), SIGPIPE is ignored, and this process adopts the orphans of its descendants, so
// that it can tell when all of them are gone. A SIGHUP that was ignored before (nohup) stays so.
#pragma once

#include <signal.h>

#include <vector>

#include "asup/base/fd.h"

namespace asup::launch {

class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  ~Signals();

  int fd() const { return fd_.get(); }
  std::vector<int> take();  // those that came

 private:
  sigset_t mask_before_;
  struct sigaction pipe_before_, child_before_;
  int adopts_before_ = 0;
  Fd fd_;
};

}  // namespace asup::launch
