// Some of the ranks, which do a part of a plan among themselves. A value.
#pragma once

#include <vector>

namespace asup::collective {

struct Team {
  int place;               // this rank's
  std::vector<int> ranks;  // by place

  int size() const { return static_cast<int>(ranks.size()); }
};

}  // namespace asup::collective
