// Workers of which each has a part of one model: they push and get parameters together, as one. To
// the pace a team is what a worker is that has a model to itself. Values only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "asup/base/error.h"

namespace asup::ps {

class Teams {
 public:
  // `teams`: each worker's; empty: every worker is a team of its own. needs: numbered from 0 on,
  // all of one size
  Teams(std::span<const std::uint32_t> teams, int workers);

  int count() const { return static_cast<int>(members_.size()); }
  std::size_t size() const { return members_.front().size(); }  // of each
  int of(int worker) const {
    check(worker >= 0 && worker < std::ssize(of_), "worker {} of {}", worker, of_.size());
    return of_[static_cast<std::size_t>(worker)];
  }
  const std::vector<int>& members(int team) const {
    return members_[static_cast<std::size_t>(team)];
  }

 private:
  std::vector<int> of_;                    // by worker
  std::vector<std::vector<int>> members_;  // by team, ascending
};

// Throws BadInput where there cannot be such teams, of so many workers each.
void require_sense(std::span<const std::uint32_t> teams, int workers, std::size_t size);

}  // namespace asup::ps
