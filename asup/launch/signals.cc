#include "asup/launch/signals.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"

namespace asup::launch {
namespace {

std::atomic<pid_t> reader = 0;  // the thread that reads the descriptor

// Runs only in threads that are not asup's, like CUDA's, which do not block the signal.
void pass_on(int number) {
  const int error = errno;
  syscall(SYS_tgkill, getpid(), reader.load(), number);
  errno = error;
}

std::vector<int> handled_signals() {
  std::vector<int> numbers = {SIGINT, SIGTERM, SIGCHLD};
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) numbers.push_back(SIGHUP);
  return numbers;
}

}  // namespace

Signals::Signals() : reader_before_(reader.exchange(gettid())) {
  const std::vector<int> handled = handled_signals();
  sigset_t set;
  sigemptyset(&set);
  for (const int number : handled) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, &mask_before_);
  for (const int number : handled) replace(number, pass_on);
  replace(SIGPIPE, SIG_IGN);
  fd_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  prctl(PR_GET_CHILD_SUBREAPER, &adopts_before_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  check(static_cast<bool>(fd_), "signalfd: {}", std::strerror(errno));
}

Signals::~Signals() {
  take();  // those that came at the last moment are not for whoever comes after us
  prctl(PR_SET_CHILD_SUBREAPER, adopts_before_);
  for (const auto& [number, action] : actions_before_) sigaction(number, &action, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  reader = reader_before_;
}

void Signals::replace(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, &actions_before_[number]);
}

std::vector<int> Signals::take() {
  std::vector<int> numbers;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof info) == sizeof info)
    numbers.push_back(static_cast<int>(info.ssi_signo));
  return numbers;
}

}  // namespace asup::launch
