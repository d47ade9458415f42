// Whether those who are left of a job's workers may go on. Of the groups that a network has been
// cut into at most one ever may: one without the coordinator needs more than half of the workers,
// and one with it half of those who may still be alive somewhere. Values only.
#pragma once

#include <string>

namespace asup::net {

struct Parting {
  int before = 0;  // workers that last agreed to go on
  int left = 0;    // of them, here
  int ended = 0;   // of the others, for sure: the coordinator says so
  bool with_coordinator = false;

  bool may_go_on() const {
    return with_coordinator ? 2 * left >= before - ended : 2 * left > before;
  }
  // Empty where they may.
  std::string why_not_go_on() const;
};

}  // namespace asup::net
