#include "launched.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "asup/base/error.h"

namespace asup::launch {
namespace {

void pause_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

std::string content(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t n; (n = pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

bool wait_for(int fd, const std::string& text, std::size_t times) {
  for (const Deadline deadline = after(Seconds(120)); Clock::now() < deadline; pause_briefly()) {
    const std::string all = content(fd);
    std::size_t found = 0;
    for (std::size_t at = 0; (at = all.find(text, at)) != all.npos; ++at) ++found;
    if (found >= times) return true;
  }
  return false;
}

Fd memory_file(const char* name) {
  Fd fd(memfd_create(name, MFD_CLOEXEC));
  check(static_cast<bool>(fd), "memfd_create");
  fcntl(fd.get(), F_SETFL, O_APPEND);
  return fd;
}

int run_and_report(const LaunchOptions& options) {
  try {
    const JobResult result = run(options);
    if (!result.message.empty()) fmt::print(stderr, "{}\n", result.message);
    return result.exit_status;
  } catch (const BadInput& error) {
    fmt::print(stderr, "bad input: {}\n", error.what());
    return 2;
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

Launched::Launched(const LaunchOptions& options)
    : Launched([&options] { return run_and_report(options); }) {}

Launched::Launched(std::function<int()> body, int in)
    : out_(memory_file("out")), err_(memory_file("err")) {
  std::fflush(nullptr);
  pid_ = fork();
  check(pid_ >= 0, "fork");
  if (pid_ != 0) return;
  if (in >= 0) dup2(in, 0);
  dup2(out_.get(), 1);
  dup2(err_.get(), 2);
  const int status = body();
  std::fflush(nullptr);
  _exit(status);
}

Launched::~Launched() {
  if (ended_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Launched::signal(int number) { kill(pid_, number); }

int Launched::wait(Seconds timeout) {
  for (const Deadline deadline = after(timeout); Clock::now() < deadline; pause_briefly()) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) != pid_) continue;
    ended_ = true;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return -1;
}

std::string Launched::out() const { return content(out_.get()); }
std::string Launched::err() const { return content(err_.get()); }

std::vector<std::string> Launched::out_lines() const {
  auto lines = lines_of(out());
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string Launched::last_line() const {
  const auto lines = lines_of(err());
  return lines.empty() ? "" : lines.back();
}

bool Launched::wait_for_output(const std::string& text, std::size_t times) const {
  return wait_for(out_.get(), text, times);
}

bool Launched::wait_for_error(const std::string& text) const {
  return wait_for(err_.get(), text, 1);
}

LaunchOptions shell_job(int ranks, const std::string& script) {
  LaunchOptions options;
  options.ranks = ranks;
  options.program = {"sh", "-c", script};
  return options;
}

bool alive(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != text.npos && text[name_end + 2] != 'Z';
}

bool all_gone(const std::vector<pid_t>& pids, Seconds timeout) {
  for (const Deadline deadline = after(timeout);; pause_briefly()) {
    if (std::none_of(pids.begin(), pids.end(), alive)) return true;
    if (Clock::now() >= deadline) return false;
  }
}

std::vector<pid_t> numbers_after(const std::string& text, const std::string& key) {
  std::vector<pid_t> numbers;
  for (std::size_t at = 0; (at = text.find(key, at)) != text.npos; ++at)
    numbers.push_back(std::atoi(text.c_str() + at + key.size()));
  return numbers;
}

}  // namespace asup::launch
