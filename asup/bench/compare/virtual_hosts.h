// Hosts on a switch, made of network namespaces of this machine: each has a link to a bridge in one
// more namespace, and `tc tbf` holds both directions of every link to a rate. They are there as
// long as the object is. Names hold the process's number and its start, so that several runs go
// side by side; what a killed one has left behind is removed by the next. Needs root. Used from one
// thread.
//
// asup takes them for hosts: memory is shared on one of them only, and between them it is TCP.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace asup::bench {

// "100mbit" or "1gbit", in bits a second. Throws BadInput.
double parse_rate(const std::string& text);
// "100 Mbit/s"
std::string rate_word(double bits_per_second);

class VirtualHosts {
 public:
  // `bits_per_second` 0: links are as fast as this machine. Throws BadInput that says what to do
  // where there cannot be such hosts: not root, no ip or tc, a kernel or container without them.
  VirtualHosts(int hosts, double bits_per_second);
  ~VirtualHosts();
  VirtualHosts(const VirtualHosts&) = delete;
  VirtualHosts& operator=(const VirtualHosts&) = delete;

  // Of both directions of a host's link, from now on; 0: as it was.
  void set_rate(int host, double bits_per_second);

  // What one host sends to the other gets lost from now on, without a word.
  void cut(int from, int to);
  // A host's link is there, or is not.
  void set_up(int host, bool up);

  // What runs the program on the first host.
  std::vector<std::string> on_first_host(const std::vector<std::string>& program) const;
  // Flags of `asup run` for so many ranks on each: they say where, and how to get there.
  std::vector<std::string> run_flags(int ranks_each = 1) const;
  // That have gone out over a host's link.
  std::uint64_t bytes_sent(int host) const;
  // Names of the namespaces, the switch's first.
  const std::vector<std::string>& namespaces() const { return namespaces_; }

 private:
  void make(double bits_per_second);
  void add_host(int host, double bits_per_second);
  void write_agent();
  void remove() noexcept;
  std::string name_of(const std::string& which) const;
  std::string port_of(int host) const;

  const int hosts_;
  std::string name_;                     // what names of its namespaces begin with
  std::vector<std::string> namespaces_;  // those that are there
  std::string folder_;                   // temporary, of the agent
};

}  // namespace asup::bench
