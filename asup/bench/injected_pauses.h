// Halts this process from outside, by a child that sends it SIGSTOP and SIGCONT by turns, for
// experiments: as when others take its machine for a while. Used from one thread.
#pragma once

#include <sys/types.h>

#include "asup/base/clock.h"
#include "asup/base/fd.h"

namespace asup::bench {

class InjectedPauses {
 public:
  InjectedPauses(Seconds halted, Seconds running);
  ~InjectedPauses();  // the process runs on
  InjectedPauses(const InjectedPauses&) = delete;
  InjectedPauses& operator=(const InjectedPauses&) = delete;

 private:
  Fd alive_;  // the child ends when this is closed, also by this process's end
  pid_t child_ = -1;
};

}  // namespace asup::bench
