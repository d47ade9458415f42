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
  membership.watch({[&](const net::Member& member) { lost.set_value(member.describe()); }, {}});
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
  try {
    return asup::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "member: %s\n", error.what());
    return 1;
  }
}
