// Members and coordinators for tests of them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "asup/net/membership/coordinator.h"
#include "asup/net/membership/membership.h"

namespace asup::net {

// Time for what must come sooner or later, however busy the machine is.
constexpr Seconds kLimit{20};

// What callbacks said, for another thread to wait for.
class Heard {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(what);
    changed_.notify_all();
  }
  // All that was said, once there are `count`, or at the deadline.
  std::vector<std::string> wait(std::size_t count, Seconds timeout = kLimit) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, after(timeout), [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

class CoordinatorTest : public testing::Test {
 protected:
  CoordinatorOptions options(int size) {
    CoordinatorOptions options{.listen = interface_address("127.0.0.1"), .key = key_, .size = size};
    options.callbacks.on_failed = [this](const std::string& why) { failed_.add(why); };
    options.callbacks.on_lost = [this](const Loss& loss) { lost_.add(loss.member.describe()); };
    options.callbacks.on_left = [this](const Member& member) { left_.add(member.describe()); };
    options.callbacks.on_late = [this](const Member& member, Seconds) {
      late_.add(member.describe());
    };
    return options;
  }

  JoinOptions join_options(int rank, int size, const std::string& address) {
    JoinOptions options;
    options.rank = rank;
    options.size = size;
    options.coordinator = address;
    options.key = key_;
    options.join_timeout = Seconds(60);
    return options;
  }

  std::future<Membership> join(int rank, int size, const std::string& address) {
    return join(join_options(rank, size, address));
  }
  std::future<Membership> join(const JoinOptions& options) {
    Member self;
    self.tcp_address = fmt::format("127.0.0.1:{}", 1000 + options.rank);
    return std::async(std::launch::async,
                      [options, self] { return Membership::join(options, self); });
  }

  std::vector<Membership> join_all(int size, const std::string& address) {
    std::vector<std::future<Membership>> coming;
    for (int rank = size - 1; rank >= 0; --rank) coming.push_back(join(rank, size, address));
    std::vector<Membership> members;
    for (auto& one : coming) members.push_back(one.get());
    std::reverse(members.begin(), members.end());
    return members;
  }

  // What join() threw.
  template <typename Exception>
  static std::string thrown(std::future<Membership> joining) {
    try {
      joining.get();
      return "nothing";
    } catch (const Exception& error) {
      return error.what();
    }
  }

  Key key_ = random_key();
  Heard failed_, lost_, left_, late_;
};

// A member in a process of its own, which the test may kill. Started before any thread is.
class MemberProcess {
 public:
  explicit MemberProcess(JoinOptions options) {
    int fds[2];
    check(pipe(fds) == 0, "pipe");
    address_ = Fd(fds[1]);
    Fd reader(fds[0]);
    pid_ = fork();
    if (pid_ == 0) {
      address_.reset();
      run(std::move(options), reader.get());
    }
  }
  ~MemberProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  void start(const std::string& coordinator) {
    const auto n = write(address_.get(), coordinator.data(), coordinator.size());
    check(n == static_cast<ssize_t>(coordinator.size()), "write");
    address_.reset();
  }
  void signal(int number) { kill(pid_, number); }
  pid_t pid() const { return pid_; }

 private:
  [[noreturn]] static void run(JoinOptions options, int fd) {
    char text[64];
    const ssize_t n = read(fd, text, sizeof text);
    if (n <= 0) _exit(1);
    options.coordinator.assign(text, static_cast<std::size_t>(n));
    auto membership = Membership::join(options, {});
    for (;;) pause();
  }

  Fd address_;
  pid_t pid_ = -1;
};

}  // namespace asup::net
