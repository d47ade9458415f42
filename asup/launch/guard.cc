#include "asup/launch/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"

namespace asup::launch {
namespace {

constexpr std::size_t kMostGroups = 4096;

// After a fork in a process with threads nothing here may allocate or lock.
class Groups {
 public:
  void add(pid_t group) {
    if (count_ < kMostGroups) groups_[count_++] = group;
  }
  void remove(pid_t group) {
    for (std::size_t i = 0; i < count_; ++i)
      if (groups_[i] == group) groups_[i] = groups_[--count_];
  }
  void signal(int number) const {
    for (std::size_t i = 0; i < count_; ++i) kill(-groups_[i], number);
  }
  bool empty() const { return count_ == 0; }

 private:
  std::array<pid_t, kMostGroups> groups_{};
  std::size_t count_ = 0;
};

// Keeps nothing open but the pipe: others wait for the ends of our descriptors.
void close_all_but(int kept) {
  const auto pipe = static_cast<unsigned>(kept);
  const bool done =
      (pipe == 0 || close_range(0, pipe - 1, 0) == 0) && close_range(pipe + 1, ~0U, 0) == 0;
  for (int fd = 0; fd < 1024 && !done; ++fd)  // before Linux 5.9
    if (fd != kept) close(fd);
}

[[noreturn]] void stand_guard(int pipe) {
  setsid();  // a Ctrl-C or a closed terminal is not for us
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "asup-guard");
  close_all_but(pipe);
  Groups groups;
  for (pid_t word; read(pipe, &word, sizeof word) == sizeof word;) {
    if (word > 0) groups.add(word);
    if (word < 0) groups.remove(-word);
    if (word == 0) _exit(0);
  }
  groups.signal(SIGTERM);
  const timespec second{1, 0};
  if (!groups.empty()) nanosleep(&second, nullptr);
  groups.signal(SIGKILL);
  _exit(0);
}

}  // namespace

Guard::Guard() {
  int fds[2];
  check(pipe2(fds, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  const Fd reader(fds[0]);
  pipe_ = Fd(fds[1]);
  pid_ = fork();
  check(pid_ >= 0, "fork: {}", std::strerror(errno));
  if (pid_ == 0) stand_guard(fds[0]);
}

Guard::~Guard() {
  tell(0);
  pipe_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::protect(pid_t group) { tell(group); }
void Guard::release(pid_t group) { tell(-group); }

void Guard::tell(pid_t word) {
  const ssize_t written = write(pipe_.get(), &word, sizeof word);
  static_cast<void>(written);  // a guard that was killed cannot be helped
}

}  // namespace asup::launch
