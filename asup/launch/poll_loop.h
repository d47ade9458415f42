// Waits for descriptors and children, and calls who asked for them. One thread runs it, and all
// handlers run there.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <functional>
#include <map>

#include "asup/base/clock.h"
#include "asup/base/fd.h"

namespace asup::launch {

class PollLoop {
 public:
  // Calls `handler` when the descriptor is ready; with no events, only when its other end is gone.
  void watch(int fd, short events, std::function<void()> handler);
  void set_events(int fd, short events);
  void forget(int fd);

  // Calls `handler` with the wait status when the child has ended.
  void watch_child(pid_t pid, std::function<void(int)> handler);
  // Takes ended children off the kernel's hands, also those adopted from ranks that died. Call on
  // SIGCHLD.
  void reap();

  // Waits until something is ready or the deadline, and handles it.
  void run_once(Deadline deadline);

 private:
  struct Watch {
    short events;
    std::function<void()> handler;
  };
  std::map<int, Watch> watches_;
  std::map<pid_t, std::function<void(int)>> children_;
};

}  // namespace asup::launch
