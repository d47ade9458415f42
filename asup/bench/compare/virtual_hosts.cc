#include "asup/bench/compare/virtual_hosts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "asup/base/error.h"
#include "asup/base/fd.h"
#include "asup/launch/process.h"

namespace asup::bench {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kPrefix = "asup-bench-";  // of all names, before what marks the process
constexpr const char* kNetwork = "10.213.0";    // seen by nobody but these namespaces
constexpr const char* kNamespaces = "/run/netns";

// What ssh is to asup run: runs a command on a host, which has its own network and name.
constexpr const char* kAgent = R"(#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do
  case $1 in
    -o) shift 2 ;;
    -G) echo "hostname $2"; exit ;;
    *) shift ;;
  esac
done
host=$((${{1#{network}.}} - 1))
shift
[ "$1" != -- ] || shift
exec ip netns exec "{name}$host" unshare --uts sh -c "hostname host$host; $*"
)";

std::string address(int host) { return fmt::format("{}.{}", kNetwork, host + 1); }

struct Said {
  int status;
  std::string text;  // on both outputs
};

Said call(const Words& words) {
  int ends[2];
  check(pipe2(ends, O_CLOEXEC) == 0, "no pipe for {}", words[0]);
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  launch::ProcessOptions options;
  options.argv = words;
  options.environment = launch::own_environment();
  options.out = options.err = write_end.get();
  const pid_t pid = launch::start_process(options);
  write_end.reset();
  Said said{0, {}};
  char bytes[4096];
  for (ssize_t count; (count = read(read_end.get(), bytes, sizeof bytes)) > 0;)
    said.text.append(bytes, static_cast<std::size_t>(count));
  waitpid(pid, &said.status, 0);
  return said;
}

void must(const Words& words) {
  const Said said = call(words);
  if (said.status == 0) return;
  throw BadInput(fmt::format(
      "hosts cannot be made here: `{}` said: {}. It takes a kernel with network namespaces, veth, "
      "bridge and sch_tbf, and where this is a container, one with the right to use them "
      "(CAP_SYS_ADMIN and CAP_NET_ADMIN)",
      fmt::join(words, " "), said.text.substr(0, said.text.find('\n'))));
}

void check_tools() {
  require(geteuid() == 0,
          "hosts are made of network namespaces, which only root may: run it with sudo");
  const auto environment = launch::own_environment();
  for (const auto& [tool, package] :
       {std::pair{"ip", "iproute2"}, {"tc", "iproute2"}, {"unshare", "util-linux"}})
    try {
      launch::find_program(tool, environment);
    } catch (const BadInput&) {
      throw BadInput(
          fmt::format("hosts cannot be made: {0} is not there: apt-get install {1}, and have its "
                      "folder (/usr/sbin) in PATH",
                      tool, package));
    }
}

// Ends what runs there; its links go with it.
void remove_namespace(const std::string& name) {
  std::istringstream pids(call({"ip", "netns", "pids", name}).text);
  for (pid_t pid; pids >> pid;) kill(pid, SIGKILL);
  call({"ip", "netns", "del", name});
}

// A process in words that no other ever has: its number and when it started. "" where it is gone.
std::string mark_of(const std::string& pid) {
  std::string stat;
  if (!std::getline(std::ifstream("/proc/" + pid + "/stat"), stat)) return "";
  // Behind the name, which may hold anything, the start is the 20th word.
  std::istringstream rest(stat.substr(stat.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 20; ++i) rest >> word;
  return pid + "-" + word;
}

void remove_leftovers() {
  std::error_code none;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(kNamespaces, none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const std::string rest = name.substr(std::string_view(kPrefix).size());
    const std::string mark = mark_of(rest.substr(0, rest.find('-')));
    if (mark.empty() || !rest.starts_with(mark + "-")) left.push_back(name);
  }
  for (const std::string& name : left) remove_namespace(name);
  if (!left.empty())
    fmt::print(stderr, "removed {} network namespaces that a killed run had left behind\n",
               left.size());
}

void limit(const std::string& where, const std::string& device, double bits_per_second) {
  if (bits_per_second <= 0) return;
  // A burst holds two of the largest packets that the kernel hands down at once, and what the wire
  // carries in a quarter of a millisecond, lest the bucket runs over between two looks at it.
  // Behind it stands a queue of 25 ms, like a switch with deep buffers.
  const double bytes = bits_per_second / 8;
  const auto word = [](double value) { return fmt::format("{:.0f}", value); };
  must({"tc", "-n", where, "qdisc", "replace", "dev", device, "root", "tbf", "rate",
        word(bits_per_second), "burst", word(std::max(131072.0, bytes * 250e-6)), "limit",
        word(std::max(1048576.0, bytes * 25e-3))});
}

}  // namespace

double parse_rate(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string unit(rest, end);
  require(
      error == std::errc() && (unit == "mbit" || unit == "gbit") && number >= 0.1 && number <= 1000,
      "--rate '{}' is no rate; write it as 100mbit, 1gbit or 10gbit", text);
  return number * (unit == "gbit" ? 1e9 : 1e6);
}

std::string rate_word(double bits_per_second) {
  return bits_per_second >= 1e9 ? fmt::format("{:g} Gbit/s", bits_per_second / 1e9)
                                : fmt::format("{:g} Mbit/s", bits_per_second / 1e6);
}

VirtualHosts::VirtualHosts(int hosts, double bits_per_second) : hosts_(hosts) {
  require(hosts >= 1 && hosts <= 64, "between 1 and 64 hosts can be made, not {}", hosts);
  check_tools();
  remove_leftovers();
  static std::atomic<int> made = 0;  // by this process
  name_ = fmt::format("{}{}-{}-", kPrefix, mark_of(std::to_string(getpid())), made++);
  try {
    write_agent();
    make(bits_per_second);
  } catch (...) {
    remove();
    throw;
  }
}

VirtualHosts::~VirtualHosts() { remove(); }

std::string VirtualHosts::name_of(const std::string& which) const { return name_ + which; }
std::string VirtualHosts::port_of(int host) const { return fmt::format("port{}", host); }

void VirtualHosts::write_agent() {
  std::string folder = (std::filesystem::temp_directory_path() / "asup-bench-XXXXXX").string();
  check(mkdtemp(folder.data()) != nullptr, "no folder can be made in {}",
        std::filesystem::temp_directory_path().string());
  folder_ = folder;
  const std::string agent = folder_ + "/agent";
  std::ofstream(agent) << fmt::format(fmt::runtime(kAgent), fmt::arg("network", kNetwork),
                                      fmt::arg("name", name_));
  check(chmod(agent.c_str(), 0700) == 0, "{} cannot be made a program", agent);
}

void VirtualHosts::make(double bits_per_second) {
  const std::string hub = name_of("switch");
  must({"ip", "netns", "add", hub});
  namespaces_.push_back(hub);
  must({"ip", "-n", hub, "link", "add", "bridge", "type", "bridge"});
  must({"ip", "-n", hub, "link", "set", "bridge", "up"});
  // A switch has processors of its own: this one at least filters nothing. Old kernels lack these.
  call({"ip", "netns", "exec", hub, "sysctl", "-q", "-e", "-w",
        "net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0",
        "net.bridge.bridge-nf-call-arptables=0"});
  for (int host = 0; host < hosts_; ++host) add_host(host, bits_per_second);
}

void VirtualHosts::add_host(int host, double bits_per_second) {
  const std::string hub = name_of("switch"), here = name_of(std::to_string(host));
  const std::string port = port_of(host);
  must({"ip", "netns", "add", here});
  namespaces_.push_back(here);
  must({"ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns",
        here});
  must({"ip", "-n", here, "addr", "add", address(host) + "/24", "dev", "eth0"});
  must({"ip", "-n", hub, "link", "set", port, "master", "bridge"});
  must({"ip", "-n", hub, "link", "set", port, "up"});
  must({"ip", "-n", here, "link", "set", "eth0", "up"});
  must({"ip", "-n", here, "link", "set", "lo", "up"});
  set_rate(host, bits_per_second);
}

void VirtualHosts::set_rate(int host, double bits_per_second) {
  limit(name_of("switch"), port_of(host), bits_per_second);
  limit(name_of(std::to_string(host)), "eth0", bits_per_second);
}

// To an Ethernet address that nobody has.
void VirtualHosts::cut(int from, int to) {
  must({"ip", "-n", name_of(std::to_string(from)), "neigh", "replace", address(to), "lladdr",
        "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent"});
}

void VirtualHosts::set_up(int host, bool up) {
  must({"ip", "-n", name_of("switch"), "link", "set", port_of(host), up ? "up" : "down"});
}

void VirtualHosts::remove() noexcept {
  try {
    for (const std::string& name : namespaces_) remove_namespace(name);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: the next run removes {}*\n", error.what(), name_);
  }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> VirtualHosts::on_first_host(
    const std::vector<std::string>& program) const {
  Words words{"ip",         "netns",   "exec",
              name_of("0"), "unshare", "--uts",
              "sh",         "-c",      "hostname host0; exec \"$@\"",
              "sh"};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

std::uint64_t VirtualHosts::bytes_sent(int host) const {
  return std::stoull(call({"ip", "netns", "exec", name_of(std::to_string(host)), "cat",
                           "/sys/class/net/eth0/statistics/tx_bytes"})
                         .text);
}

std::vector<std::string> VirtualHosts::run_flags(int ranks_each) const {
  Words addresses;
  for (int host = 0; host < hosts_; ++host)
    addresses.push_back(fmt::format("{}:{}", address(host), ranks_each));
  return {"--ssh",       folder_ + "/agent",
          "--hosts",     fmt::format("{}", fmt::join(addresses, ",")),
          "-n",          std::to_string(hosts_ * ranks_each),
          "--interface", fmt::format("{}.0/24", kNetwork)};
}

}  // namespace asup::bench
