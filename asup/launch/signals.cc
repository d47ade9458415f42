#include "asup/launch/signals.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

#include "asup/base/error.h"

namespace asup::launch {
namespace {

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, number);
  struct sigaction hang_up {};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

struct sigaction replace(int number, void (*handler)(int)) {
  struct sigaction action {
  }, before{};
  action.sa_handler = handler;
  sigaction(number, &action, &before);
  return before;
}

}  // namespace

Signals::Signals()
    : pipe_before_(replace(SIGPIPE, SIG_IGN)), child_before_(replace(SIGCHLD, SIG_DFL)) {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, &mask_before_);
  fd_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  prctl(PR_GET_CHILD_SUBREAPER, &adopts_before_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  check(static_cast<bool>(fd_), "signalfd: {}", std::strerror(errno));
}

Signals::~Signals() {
  take();  // those that came at the last moment are not for whoever comes after us
  prctl(PR_SET_CHILD_SUBREAPER, adopts_before_);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  sigaction(SIGCHLD, &child_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::vector<int> Signals::take() {
  std::vector<int> numbers;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof info) == sizeof info)
    numbers.push_back(static_cast<int>(info.ssi_signo));
  return numbers;
}

}  // namespace asup::launch
