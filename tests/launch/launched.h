// A launcher in a process of its own, so that a test can send it signals, kill it, and read what it
// wrote. Used from one thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "asup/base/clock.h"
#include "asup/base/fd.h"
#include "asup/launch/launch.h"

namespace asup::launch {

class Launched {
 public:
  explicit Launched(const LaunchOptions& options);
  // Anything else that writes and ends with a status.
  explicit Launched(std::function<int()> body, int in = -1);
  ~Launched();

  void signal(int number);
  // The exit status, or 128 + the signal that killed it; -1 where it does not end in time.
  int wait(Seconds timeout = Seconds(120));

  pid_t pid() const { return pid_; }
  std::string out() const;  // standard output so far
  std::string err() const;
  std::vector<std::string> out_lines() const;  // sorted, since ranks write in any order
  std::string last_line() const;               // of standard error

  // Until the text is in the standard output; false after 120 s.
  bool wait_for_output(const std::string& text, std::size_t times = 1) const;
  // The same for standard error.
  bool wait_for_error(const std::string& text) const;

 private:
  Fd out_, err_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

// The ranks' program given to a shell.
LaunchOptions shell_job(int ranks, const std::string& script);

bool alive(pid_t pid);  // and not merely a corpse that nobody has taken away
// Until none of them is alive; false after the timeout.
bool all_gone(const std::vector<pid_t>& pids, Seconds timeout);

// The numbers behind each `key` in the text: "pid=12 pid=13" has 12 and 13 behind "pid=".
std::vector<pid_t> numbers_after(const std::string& text, const std::string& key);

}  // namespace asup::launch
