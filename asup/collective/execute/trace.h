// A record of what an executor did, for tests that prove it and for timelines that draw it.
#pragma once

#include <cstdint>
#include <functional>

#include "asup/collective/plan/plan.h"

namespace asup::collective {

struct TraceEvent {
  enum class Kind : std::uint8_t {
    begin,
    step,
    end
  };  // of a call; a step's when its round is done
  Kind kind;
  std::uint64_t communicator;  // id
  std::uint64_t sequence;      // the call's number on it
  const Spec* spec;            // both stay until the sink returns
  const Plan* plan;
  int lane = 0, round = 0, step = 0;  // of a step
};

// Called under the mesh's lock; must be quick and must not throw.
using TraceSink = std::function<void(const TraceEvent&)>;

}  // namespace asup::collective
