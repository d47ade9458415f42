#include "asup/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace asup {

std::thread start_thread(const char* name, std::function<void()> body) {
  // A thread inherits its maker's mask.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([name, body = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    body();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace asup
