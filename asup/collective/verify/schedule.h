// The order of events on links that buffer nothing: a message passes when both its ranks have come
// to it, and a rank goes on when all messages of its round have passed. Such a run ends in every
// order of events, or in none. Throws Refuted where it does not end.
#pragma once

#include "asup/collective/plan/plan.h"
#include "asup/collective/verify/messages.h"

namespace asup::collective::proof {

// What happens at each event.
class Effects {
 public:
  virtual ~Effects() = default;
  virtual void pass(const Message& message) = 0;
  // All steps of a memory round; the site's step is 0.
  virtual void work(const Site& site, const Round& round) = 0;
  virtual void end_round(int rank) = 0;
};

void run_lane(const Spec& spec, const std::vector<Plan>& plans, int lane, const Messages& messages,
              Effects& effects);

}  // namespace asup::collective::proof
