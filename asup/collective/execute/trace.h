// A record of what an executor did, for tests that prove it and for timelines that draw it.
#pragma once

#include <cstdint>
#include <functional>

#include "asup/base/clock.h"
#include "asup/base/timeline_event.h"
#include "asup/collective/plan/plan.h"

namespace asup::collective {

struct TraceEvent {
  enum class Kind : std::uint8_t {
    begin,   // of a call
    step,    // its round is done
    encode,  // of a part of what leaves, from `since` until now
    end      // of the call, which began at `since`
  };
  Kind kind;
  std::uint64_t communicator;  // id
  std::uint64_t sequence;      // the call's number on it
  const Spec* spec;            // both stay until the sink returns
  const Plan* plan;
  int lane = 0, round = 0, step = 0;       // of a step
  Clock::time_point since{};               // of encode and end
  const TimelineLabels* labels = nullptr;  // of begin and end; null: its caller takes no part
};

// Called under the mesh's lock; must be quick and must not throw.
using TraceSink = std::function<void(const TraceEvent&)>;

}  // namespace asup::collective
