// A communicator's calls as spans of a timeline: those of threads that take part in it. Safe from
// any thread.
#pragma once

#include "asup/base/timeline.h"
#include "asup/collective/execute/trace.h"

namespace asup::collective {

// Collectives, which follow each other, have a track, and what travels to or from each peer
// another.
TraceSink timeline_sink(const Timeline& timeline);

}  // namespace asup::collective
