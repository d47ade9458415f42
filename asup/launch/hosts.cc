#include "asup/launch/hosts.h"

#include <algorithm>
#include <set>

#include "asup/base/error.h"
#include "asup/base/numbers.h"

namespace asup::launch {
namespace {

constexpr int kMostSlots = 1 << 16;

HostSpec parse_host(std::string_view entry) {
  std::string_view name = entry;
  HostSpec host;
  const std::size_t colon = entry.rfind(':');
  // Two colons without brackets are an IPv6 address, which has no slots.
  if (colon != entry.npos && (entry.find(':') == colon || entry[colon - 1] == ']')) {
    name = entry.substr(0, colon);
    host.slots = number_in<int>(entry.substr(colon + 1)).value_or(0);
    require(host.slots > 0 && host.slots <= kMostSlots,
            "--hosts: '{}': after the colon comes the number of ranks the host can take, up to {}",
            entry, kMostSlots);
  }
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  require(!name.empty(), "--hosts: '{}': a host's name is missing", entry);
  require(!name.starts_with('-') && name.find_first_of(" \t'\"") == name.npos,
          "--hosts: '{}' is no host's name", entry);
  host.name = name;
  return host;
}

void refuse_twice(const std::vector<HostSpec>& hosts) {
  std::set<std::string> names;
  for (const HostSpec& host : hosts)
    require(names.insert(host.name).second,
            "--hosts: {} is there twice; write {}:2 to run two ranks on it", host.name, host.name);
}

}  // namespace

std::vector<HostSpec> parse_hosts(std::string_view text) {
  std::vector<HostSpec> hosts;
  while (true) {
    const std::size_t comma = text.find(',');
    hosts.push_back(parse_host(text.substr(0, comma)));
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  refuse_twice(hosts);
  return hosts;
}

std::vector<Placement> place(int ranks, const std::vector<HostSpec>& hosts, int servers) {
  const int n = static_cast<int>(hosts.size());
  const bool has_slots =
      std::any_of(hosts.begin(), hosts.end(), [](auto& h) { return h.slots > 0; });
  int slots = 0;
  for (const HostSpec& host : hosts) slots += std::max(host.slots, 1);
  if (ranks == 0) ranks = slots;
  require(!has_slots || ranks <= slots, "{} ranks do not fit into the {} slots of --hosts", ranks,
          slots);
  std::vector<Placement> placements;
  int next = 0, last = 0;
  for (int i = 0; i < n; ++i) {
    const HostSpec& host = hosts[static_cast<std::size_t>(i)];
    const int share = has_slots ? std::max(host.slots, 1) : ranks / n + (i < ranks % n ? 1 : 0);
    const int count = std::min(share, ranks - next);
    if (count > 0) last = i;
    placements.push_back({host, next, count});
    next += count;
  }
  for (int server = 0; server < servers; ++server)
    placements[static_cast<std::size_t>((last + 1 + server) % n)].servers.push_back(server);
  std::erase_if(placements, [](const Placement& p) { return p.count == 0 && p.servers.empty(); });
  return placements;
}

}  // namespace asup::launch
