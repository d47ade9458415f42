#include "asup/ps/teams.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup::ps {

Teams::Teams(std::span<const std::uint32_t> teams, int workers) {
  for (int worker = 0; worker < workers; ++worker) {
    const auto team = teams.empty() ? static_cast<std::size_t>(worker)
                                    : std::size_t{teams[static_cast<std::size_t>(worker)]};
    of_.push_back(static_cast<int>(team));
    if (members_.size() <= team) members_.resize(team + 1);
    members_[team].push_back(worker);
  }
}

void require_sense(std::span<const std::uint32_t> teams, int workers, std::size_t size) {
  if (teams.empty() && size <= 1) return;
  require(std::ssize(teams) == workers && size >= 1 && teams.size() % size == 0,
          "the teams of {} workers are told, and there are {}, {} in each", teams.size(), workers,
          size);
  for (std::uint32_t team = 0; team < teams.size() / size; ++team)
    require(std::ranges::count(teams, team) == static_cast<std::ptrdiff_t>(size),
            "team {} has {} workers, and a model has {} parts", team,
            std::ranges::count(teams, team), size);
}

}  // namespace asup::ps
