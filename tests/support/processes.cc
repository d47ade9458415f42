#include "tests/support/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "asup/base/error.h"
#include "tests/support/join_options.h"

namespace asup::testing {
namespace {

// A child learns the coordinator's address through a pipe: the coordinator has a thread, and so
// starts after the last fork.
struct Child {
  pid_t pid;
  int address;  // the pipe's end to write to
};

std::string read_all(int from) {
  std::string text;
  std::array<char, 256> piece;
  for (ssize_t got; (got = read(from, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(got));
  close(from);
  return text;
}

// Never returns: what lies above on the stack is the parent's.
[[noreturn]] void be_a_rank(net::JoinOptions options, int address,
                            const std::function<void(Job&)>& body) {
  bool failed = true;
  try {
    options.coordinator = read_all(address);
    {
      Job job = Job::join(options);
      body(job);
    }
    failed = ::testing::Test::HasFailure();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", options.rank, error.what());
  }
  std::fflush(nullptr);
  _exit(failed ? 1 : 0);
}

Child start(const net::JoinOptions& options, const std::function<void(Job&)>& body,
            const std::vector<Child>& others) {
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) throw Error("no pipe");
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[1]);
    for (const Child& other : others) close(other.address);
    be_a_rank(options, ends[0], body);
  }
  close(ends[0]);
  return {pid, ends[1]};
}

}  // namespace

void run_processes(int ranks, net::LinkKind links, const std::function<void(Job&)>& body,
                   int killed, int servers) {
  net::JoinOptions options = join_options(ranks, links, servers);
  std::vector<Child> children;
  for (options.rank = 0; options.rank < ranks; ++options.rank)
    children.push_back(start(options, body, children));

  const auto coordinator = make_coordinator(options);
  const std::string address = coordinator ? coordinator->address() : "";
  for (const Child& child : children) {
    EXPECT_EQ(write(child.address, address.data(), address.size()),
              static_cast<ssize_t>(address.size()));
    close(child.address);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(children[static_cast<std::size_t>(rank)].pid, &status, 0);
    if (rank == killed) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
          << "rank " << rank << " lives";
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "rank " << rank << " failed";
    }
  }
}

}  // namespace asup::testing
