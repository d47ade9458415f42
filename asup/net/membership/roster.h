// The members of a job in one generation. Values only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "asup/net/membership/roles.h"

namespace asup::net {

// Where members can share memory: same boot id and same network namespace.
struct HostId {
  std::string boot;        // /proc/sys/kernel/random/boot_id
  std::string namespace_;  // /proc/self/ns/net
  bool operator==(const HostId&) const = default;
};

struct Member {
  std::uint64_t id = 0;         // kept for life; 0 until the coordinator gives one
  int rank = 0;                 // place in this generation: workers first, then servers
  std::optional<int> server{};  // which of the servers it is; none: it is a worker
  std::string hostname;
  int pid = 0;
  HostId host;
  std::string tcp_address;   // host:port it listens on
  std::string unix_address;  // abstract socket name for members of the same host

  std::string describe() const;  // "rank 3 (pid 4711 on alpha)", "server 0 (pid …)"
  bool operator==(const Member&) const = default;
};

struct Roster {
  std::uint64_t generation = 0;
  std::vector<Member> members;  // by rank

  int size() const { return static_cast<int>(members.size()); }
  Roles roles() const;
  std::span<const Member> workers() const;
  bool one_host() const;
  const Member* find(std::uint64_t id) const;  // null where no member has it
  bool operator==(const Roster&) const = default;
};

// The generation after this one: those who stay in their order, then the newcomers, then the
// servers, each with its new place. needs: all of them have ids
Roster next_generation(std::uint64_t generation, std::vector<Member> staying,
                       const std::vector<Member>& newcomers);

}  // namespace asup::net
