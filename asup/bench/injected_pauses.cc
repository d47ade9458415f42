#include "asup/bench/injected_pauses.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "asup/base/error.h"

namespace asup::bench {
namespace {

// Only system calls: this is the child of a process with many threads. It looks for its end while
// the other runs, so that it never leaves it halted.
[[noreturn]] void halt_by_turns(pid_t process, int alive, Seconds halted, Seconds running) {
  const auto nanoseconds = static_cast<long>(halted.count() * 1e9);
  const timespec pause{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  pollfd end{alive, POLLIN, 0};
  while (::poll(&end, 1, static_cast<int>(running.count() * 1e3)) == 0) {
    ::kill(process, SIGSTOP);
    ::nanosleep(&pause, nullptr);
    ::kill(process, SIGCONT);
  }
  _exit(0);
}

}  // namespace

InjectedPauses::InjectedPauses(Seconds halted, Seconds running) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  const Fd reads(ends[0]);
  alive_ = Fd(ends[1]);
  const pid_t self = ::getpid();
  child_ = ::fork();
  check(child_ >= 0, "cannot start a process that halts this one: {}", std::strerror(errno));
  if (child_ > 0) return;
  ::close(ends[1]);
  halt_by_turns(self, ends[0], halted, running);
}

InjectedPauses::~InjectedPauses() {
  alive_ = Fd();
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace asup::bench
