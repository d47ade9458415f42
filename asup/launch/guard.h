// A small process that outlives its launcher for one purpose: when the launcher is gone without
// having ended its ranks (kill -9, out of memory), it ends them, and whatever they have started in
// their process groups. Used from one thread.
#pragma once

#include <sys/types.h>

#include "asup/base/fd.h"

namespace asup::launch {

class Guard {
 public:
  Guard();
  ~Guard();  // its work is done: the guard ends, and ends nobody
  Guard(const Guard&) = delete;

  void protect(pid_t group);  // from now on it ends with us
  void release(pid_t group);  // it is gone: its number may soon be somebody else's

 private:
  void tell(pid_t word);

  Fd pipe_;
  pid_t pid_ = -1;
};

}  // namespace asup::launch
