// The signals that a launcher handles, as a descriptor to poll: SIGINT, SIGTERM, SIGHUP and
// SIGCHLD.
//
// While it lives, they are blocked in the calling thread, which reads them, and in those it starts;
// a thread that was there before passes them on. SIGPIPE is ignored, and this process adopts the
// orphans of its descendants, so that it can tell when all of them are gone. A SIGHUP that was
// ignored before (nohup) stays so.
#pragma once

#include <signal.h>

#include <map>
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
  void replace(int number, void (*handler)(int));

  pid_t reader_before_;
  sigset_t mask_before_;
  std::map<int, struct sigaction> actions_before_;
  int adopts_before_ = 0;
  Fd fd_;
};

}  // namespace asup::launch
