// Hosts with a network between them that a test cuts as it likes: network namespaces on a bridge.
// A thread that has entered one makes its sockets there. They go with the object. Needs root.
#pragma once

#include <string>
#include <vector>

namespace asup::testing {

class NetworkHosts {
 public:
  // Throws BadInput where the kernel does not let us make any.
  explicit NetworkHosts(int hosts);
  ~NetworkHosts();
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;

  std::string address(int host) const;
  // From now on the calling thread, and those that it starts, are on this host.
  void enter(int host) const;

  // What one host sends to the other gets lost from now on, without a word.
  void cut(int from, int to) const;
  void cut_apart(const std::vector<int>& some, const std::vector<int>& others) const;
  // The host's only link.
  void set_up(int host, bool up) const;

 private:
  void make() const;
  void remove() const;
  std::string name_of(int host) const;

  const int hosts_;
  const std::string prefix_;
};

}  // namespace asup::testing
