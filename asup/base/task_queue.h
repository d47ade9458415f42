// Work that threads hand to one that polls: its descriptor is readable while there is some. post()
// may be called from any thread, run_all() from the one that does the work.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "asup/base/error.h"
#include "asup/base/fd.h"

namespace asup {

class TaskQueue {
 public:
  TaskQueue() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    check(static_cast<bool>(fd_), "eventfd: {}", std::strerror(errno));
  }
  int fd() const { return fd_.get(); }
  void post(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    eventfd_write(fd_.get(), 1);
  }
  void run_all() {
    eventfd_t count;
    eventfd_read(fd_.get(), &count);
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(work_);
    }
    for (const auto& item : work) item();
  }

 private:
  const Fd fd_;
  std::mutex mutex_;
  std::vector<std::function<void()>> work_;  // protected by mutex_
};

}  // namespace asup
