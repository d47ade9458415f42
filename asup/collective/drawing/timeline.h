// When each step of the plans happens, in ticks: a message or a memory round takes one, begins when
// both its ranks have come to it, and a round ends with its last message. For people who read or
// draw plans; cost.h knows about seconds. Values only; safe from any thread.
#pragma once

#include <vector>

#include "asup/collective/plan/plan.h"

namespace asup::collective::drawing {

struct Event {
  int lane = 0;
  int tick = 0;   // from 1
  int from = 0;   // who sends, or works in memory
  int to = -1;    // who receives; -1: a memory step
  Step step;      // of `from`
  Step received;  // of `to`

  bool is_message() const { return to >= 0; }
  bool is_signal() const { return is_message() && step.src.size() == 0; }
};

struct Timeline {
  std::vector<Event> events;  // by lane, tick, then rank
  int lanes = 0;
  int ticks = 0;  // of the longest lane

  std::size_t messages() const;
};

// Throws Error that names the flaw where the plans do not fit together.
Timeline timeline_of(const Spec& spec, const std::vector<Plan>& plans);

// "0 -> 1: [0, 64), added, complete": one event, for people. Where input and output are one
// memory, ranges of it have no name.
std::string describe(const Event& event, const Spec& spec);

}  // namespace asup::collective::drawing
