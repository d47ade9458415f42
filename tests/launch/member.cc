// Ranks for the tests of the launcher. What it does after it has joined is its argument:
//
//   join             prints who it is, and ends
//   die RANK HOW     that rank dies (a signal's number, or "exit"); the others wait to hear of it,
//                    say so, and fail
//   never RANK       that rank does not join but sleeps
//   early RANK       that rank ends without joining
//   find-key         looks for the job's key where other users could see it
//   work             joins with links to all, says who it is, and leaves
//   outlive MEMBER STATUS   joins with links to all, says so, and ends with the status when that
//                    member is gone; the member itself waits to be killed
//   fail RANK HOW    joins with links to all; that rank fails: "error" and "bad-input" are thrown
//   and
//                    not caught, "nothing" ends it without an exception, "own-handler" throws under
//                    a terminate handler of its own that exits with 9. The others miss it, and
//                    throw
//   server           joins as a server, says so, and ends when the workers have left
//   agent            is `asup agent`
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/launch/agent.h"
#include "asup/net/job.h"
#include "asup/net/membership/membership.h"
#include "asup/net/transport/mesh.h"

namespace asup {
namespace {

namespace fs = std::filesystem;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

net::Membership join() {
  return net::Membership::join(net::identity_from(net::process_environment()), {});
}

int run_join() {
  auto membership = join();
  const auto& self = membership.self();
  say(fmt::format("{} of {}, id {}", self.describe(), membership.roster().size(), self.id));
  return 0;
}

int run_die(int victim, const std::string& how) {
  auto membership = join();
  if (membership.self().rank == victim) {
    say("dying");
    if (how == "exit") _exit(7);
    raise(std::stoi(how));
  }
  std::promise<std::string> lost;
  const auto hear = [&](const net::Member& member, const std::string&) {
    lost.set_value(member.describe());
  };
  membership.watch({.on_lost = hear, .on_left = {}});
  say("lost " + lost.get_future().get());
  membership.leave();
  return 1;
}

int run_never(int absent, bool ends) {
  const int rank = std::atoi(std::getenv("ASUP_RANK"));
  if (rank == absent && ends) return 0;
  if (rank == absent) sleep(1000);
  const auto membership = join();
  return 0;
}

int run_work() {
  const Job job = Job::join();
  say(fmt::format("worker {} of {}, servers: {}", job.rank(), job.size(), job.servers()));
  return 0;
}

// Throws what others throw that wait for a rank in vain.
void wait_for_the_end_of(Job& job, int rank) {
  const net::MeshLock lock(job.mesh().loop());
  job.mesh().loop().drive([&] { return job.mesh().end_of(rank) != net::LinkEnd::open; },
                          Deadline::max());
  throw PeerLost(fmt::format("rank {} was lost, says rank {}", rank, job.rank()));
}

int run_fail(int victim, const std::string& how) {
  if (how == "own-handler")
    std::set_terminate([] {
      std::fputs("the program's own handler\n", stderr);
      _exit(9);
    });
  Job job = Job::join();
  if (job.rank() != victim) wait_for_the_end_of(job, victim);
  std::printf("printed before");  // without a line's end, so that it is not written by itself
  if (how == "nothing") std::terminate();
  if (how == "bad-input") throw BadInput("there is no data in 'x'");
  throw std::runtime_error("no sample 7");
}

int run_outlive(int victim, int status) {
  Job job = Job::join();
  say(fmt::format("joined, pid={}", getpid()));
  if (job.member() == victim) sleep(1000);
  {
    const net::MeshLock lock(job.mesh().loop());
    job.mesh().loop().drive([&] { return job.mesh().end_of(victim) != net::LinkEnd::open; },
                            Deadline::max());
  }
  say(fmt::format("outlived {}",
                  job.roster().members[static_cast<std::size_t>(victim)].describe()));
  return status;
}

int run_server() {
  for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_IGN);
  Job job = Job::join();
  say(fmt::format("serves {}, pid={}", job.size(), getpid()));
  job.wait_for_workers_to_leave();
  say("all have left");
  return 0;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// How many command lines and environments of processes on this host hold the text.
int places_with(const std::string& text) {
  int count = 0;
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored))
    for (const char* name : {"cmdline", "environ"})
      count += read_file(process.path() / name).find(text) != std::string::npos;
  return count;
}

int run_find_key() {
  auto membership = join();
  const std::string raw(reinterpret_cast<const char*>(membership.key().data()), 32);
  const bool scan_works = places_with("find-key") > 0 && places_with("ASUP_COORDINATOR=") > 0;
  say(fmt::format("scan works: {}, raw: {}, hex: {}", scan_works, places_with(raw),
                  places_with(net::to_hex(membership.key()))));
  return 0;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "join") return run_join();
  if (what == "die" && argc == 4) return run_die(std::atoi(argv[2]), argv[3]);
  if (what == "never" && argc == 3) return run_never(std::atoi(argv[2]), false);
  if (what == "early" && argc == 3) return run_never(std::atoi(argv[2]), true);
  if (what == "find-key") return run_find_key();
  if (what == "work") return run_work();
  if (what == "outlive" && argc == 4) return run_outlive(std::atoi(argv[2]), std::atoi(argv[3]));
  if (what == "server") return run_server();
  if (what == "agent") return launch::run_agent(STDIN_FILENO, STDOUT_FILENO);
  throw BadInput("unknown: " + what);
}

}  // namespace
}  // namespace asup

int main(int argc, char** argv) {
  asup::set_up_log("member");
  if (argc == 4 && argv[1] == std::string("fail"))
    return asup::run_fail(std::atoi(argv[2]), argv[3]);  // not caught here
  try {
    return asup::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "member: %s\n", error.what());
    return 1;
  }
}
