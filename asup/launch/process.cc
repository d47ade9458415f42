#include "asup/launch/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "asup/base/error.h"
#include "asup/base/fd.h"

extern char** environ;

namespace asup::launch {
namespace {

// What a child tells its parent when it cannot become the program.
struct Failure {
  enum Step { directory, exec } step;
  int error;
};

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// From here to exec only calls that are safe after a fork in a process with threads.
void put_in_place(int fd, int place) {
  if (fd == place)
    fcntl(fd, F_SETFD, 0);
  else
    dup2(fd, place);
}

void reset_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGCHLD, SIGUSR1, SIGUSR2})
    signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become(const char* path, char* const* argv, char* const* environment,
                         const ProcessOptions& options, pid_t parent, int null, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);  // it died before the line above
  put_in_place(options.in >= 0 ? options.in : null, 0);
  if (options.out >= 0) put_in_place(options.out, 1);
  if (options.err >= 0) put_in_place(options.err, 2);
  for (const int fd : options.keep) fcntl(fd, F_SETFD, 0);
  Failure failure{Failure::directory, 0};
  if (options.directory.empty() || chdir(options.directory.c_str()) == 0) {
    failure.step = Failure::exec;
    reset_signals();
    execve(path, argv, environment);
  }
  failure.error = errno;
  const ssize_t written = write(report, &failure, sizeof failure);
  _exit(written == sizeof failure ? 127 : 126);
}

[[noreturn]] void complain(const ProcessOptions& options, const Failure& failure) {
  if (failure.step == Failure::directory)
    throw BadInput(fmt::format("cannot change to the folder {}: {}", options.directory,
                               std::strerror(failure.error)));
  const char* hint =
      failure.error == ENOEXEC ? " (a script needs a first line such as #!/bin/sh)" : "";
  throw BadInput(
      fmt::format("cannot start {}: {}{}", options.argv[0], std::strerror(failure.error), hint));
}

}  // namespace

pid_t start_process(const ProcessOptions& options) {
  check(!options.argv.empty(), "start_process: no program");
  const std::string path = find_program(options.argv[0], options.environment);
  const auto argv = pointers_to(options.argv), environment = pointers_to(options.environment);
  int report[2];
  check(pipe2(report, O_CLOEXEC) == 0, "pipe: {}", std::strerror(errno));
  const Fd from_child(report[0]);
  Fd to_parent(report[1]);
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  check(pid >= 0, "fork: {}", std::strerror(errno));
  if (pid == 0)
    become(path.c_str(), argv.data(), environment.data(), options, parent, null.get(),
           to_parent.get());
  setpgid(pid, pid);  // both sides do: whoever signals the group first finds it
  to_parent.reset();
  Failure failure{};
  // Ends without a word when the exec succeeds and closes the pipe.
  if (read(from_child.get(), &failure, sizeof failure) != sizeof failure) return pid;
  waitpid(pid, nullptr, 0);
  complain(options, failure);
}

std::string find_program(const std::string& name, const std::vector<std::string>& environment) {
  if (name.find('/') != name.npos) return name;
  std::string path = get_variable(environment, "PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    struct stat info {};
    if (stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        access(candidate.c_str(), X_OK) == 0)
      return candidate;
    begin = end + 1;
  }
  struct stat here {};
  const bool in_this_folder = stat(name.c_str(), &here) == 0 && S_ISREG(here.st_mode);
  throw BadInput(fmt::format("cannot start {}: it is in none of the folders of PATH{}", name,
                             in_this_folder ? fmt::format("; did you mean ./{}?", name) : ""));
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

void set_variable(std::vector<std::string>& environment, const std::string& name,
                  const std::string& value) {
  std::erase_if(environment, [&](const std::string& v) { return v.starts_with(name + "="); });
  environment.push_back(name + "=" + value);
}

std::string get_variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& variable : environment)
    if (variable.starts_with(name + "=")) return variable.substr(name.size() + 1);
  return "";
}

}  // namespace asup::launch
