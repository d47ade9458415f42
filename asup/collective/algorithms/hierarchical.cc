#include "asup/collective/algorithms/hierarchical.h"

#include <algorithm>
#include <map>

#include "asup/collective/algorithms/binary_blocks.h"
#include "asup/collective/algorithms/halving.h"
#include "asup/collective/plan/build.h"

namespace asup::collective {
namespace {

// Where a rank stands.
struct Standing {
  Team inside;  // the ranks of its host
  Team across;  // those of its place on all hosts; empty for places that not every host has
  int width;    // places that every host has
};

Standing standing_of(int rank, const Spec& spec) {
  std::map<int, std::vector<int>> hosts;
  for (int r = 0; r < spec.ranks; ++r) hosts[spec.hosts.empty() ? 0 : spec.hosts[r]].push_back(r);
  const int own = spec.hosts.empty() ? 0 : spec.hosts[rank];
  Standing standing{{0, hosts[own]}, {0, {}}, spec.ranks};
  const auto& ranks = standing.inside.ranks;
  const int place = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  standing.inside.place = place;
  for (const auto& [host, members] : hosts) {
    standing.width = std::min(standing.width, static_cast<int>(members.size()));
  }
  if (place >= standing.width) return standing;
  for (const auto& [host, members] : hosts) {
    if (host == own) standing.across.place = standing.across.size();
    standing.across.ranks.push_back(members[place]);
  }
  return standing;
}

// The ring inside a host. Places beyond the width have empty blocks.
class HostRing {
 public:
  HostRing(const Standing& standing, Cut part)
      : team_(standing.inside), edges_(edges_of(part, standing.width)) {
    edges_.resize(static_cast<std::size_t>(team_.size()) + 1, part.end);
  }

  Cut block(int index) const {
    const int place = around(index, 0, team_.size());
    return {edges_[place], edges_[place + 1]};
  }

  // Place i ends with the sum of block i.
  void reduce(bool finish, Lane& lane) const {
    for (int s = 0; s < team_.size() - 1; ++s) {
      const Cut leaving = block(team_.place - 1 - s), coming = block(team_.place - 2 - s);
      const bool last = s == team_.size() - 2;
      lane.push_back({send(next(), s == 0 ? in(leaving) : out(leaving)),
                      recv_reduce(previous(), in(coming), out(coming), finish && last)});
    }
  }

  void gather(Lane& lane) const {
    for (int s = 0; s < team_.size() - 1; ++s) {
      lane.push_back({send(next(), out(block(team_.place - s))),
                      recv(previous(), out(block(team_.place - s - 1)))});
    }
  }

 private:
  int next() const { return team_.ranks[around(team_.place, 1, team_.size())]; }
  int previous() const { return team_.ranks[around(team_.place, -1, team_.size())]; }

  const Team& team_;
  std::vector<std::size_t> edges_;
};

}  // namespace

Plan hierarchical_all_reduce(int rank, const Spec& spec) {
  if (spec.ranks == 1) return alone(spec);
  const Standing standing = standing_of(rank, spec);
  const bool one_host = standing.inside.size() == spec.ranks;
  const bool alone_on_host = standing.inside.size() == 1;
  return in_lanes(spec, spec.count / static_cast<std::size_t>(standing.width), [&](Cut part) {
    const HostRing ring(standing, part);
    Lane lane;
    ring.reduce(/*finish=*/one_host, lane);
    if (!one_host && standing.across.size() > 0) {
      all_reduce_in_binary_blocks(standing.across, ring.block(standing.inside.place),
                                  alone_on_host ? Area::input : Area::output, lane);
    }
    ring.gather(lane);
    return lane;
  });
}

}  // namespace asup::collective
