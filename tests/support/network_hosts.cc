#include "tests/support/network_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "asup/base/error.h"
#include "asup/base/fd.h"

namespace asup::testing {
namespace {

// What it said, on both outputs, where it failed.
std::string call(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  check(pipe != nullptr, "cannot start {}", command);
  std::string said;
  std::array<char, 512> piece;
  while (std::fgets(piece.data(), piece.size(), pipe)) said += piece.data();
  return pclose(pipe) == 0 ? "" : fmt::format("`{}` failed: {}", command, said);
}

void must(const std::string& command) {
  const std::string failure = call(command);
  require(failure.empty(), "no hosts can be made of network namespaces here: {}", failure);
}

std::string next_prefix() {
  static std::atomic<int> made = 0;
  return fmt::format("asup-cut-{}-{}-", getpid(), made++);
}

}  // namespace

NetworkHosts::NetworkHosts(int hosts) : hosts_(hosts), prefix_(next_prefix()) {
  require(geteuid() == 0, "only root may make hosts of network namespaces");
  try {
    make();
  } catch (...) {
    remove();
    throw;
  }
}

NetworkHosts::~NetworkHosts() { remove(); }

std::string NetworkHosts::name_of(int host) const { return fmt::format("{}{}", prefix_, host); }
std::string NetworkHosts::address(int host) const { return fmt::format("10.217.0.{}", host + 1); }

void NetworkHosts::make() const {
  const std::string hub = prefix_ + "switch";
  must("ip netns add " + hub);
  must(fmt::format("ip -n {} link add bridge type bridge", hub));
  must(fmt::format("ip -n {} link set bridge up", hub));
  for (int host = 0; host < hosts_; ++host) {
    const std::string here = name_of(host);
    must("ip netns add " + here);
    must(
        fmt::format("ip -n {} link add port{} type veth peer name eth0 netns {}", hub, host, here));
    must(fmt::format("ip -n {} addr add {}/24 dev eth0", here, address(host)));
    must(fmt::format("ip -n {} link set port{} master bridge up", hub, host));
    must(fmt::format("ip -n {} link set eth0 up", here));
    must(fmt::format("ip -n {} link set lo up", here));
  }
}

void NetworkHosts::remove() const {
  for (int host = 0; host < hosts_; ++host) call("ip netns del " + name_of(host));
  call("ip netns del " + prefix_ + "switch");
}

void NetworkHosts::enter(int host) const {
  const Fd there(open(("/run/netns/" + name_of(host)).c_str(), O_RDONLY | O_CLOEXEC));
  check(there && setns(there.get(), CLONE_NEWNET) == 0, "cannot enter {}", name_of(host));
}

// To an Ethernet address that nobody has.
void NetworkHosts::cut(int from, int to) const {
  must(fmt::format("ip -n {} neigh replace {} lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
                   name_of(from), address(to)));
}

void NetworkHosts::cut_apart(const std::vector<int>& some, const std::vector<int>& others) const {
  for (const int one : some)
    for (const int other : others) {
      cut(one, other);
      cut(other, one);
    }
}

void NetworkHosts::set_up(int host, bool up) const {
  must(fmt::format("ip -n {}switch link set port{} {}", prefix_, host, up ? "up" : "down"));
}

}  // namespace asup::testing
