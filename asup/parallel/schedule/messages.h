// Between which actions the messages of a pipeline travel. Pure; safe from any thread.
#pragma once

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

// Whether the stages before and after this one are on another rank, from which messages come.
bool receives_activation(int stage, const PipelineSpec& spec);
bool receives_gradient(int stage, const PipelineSpec& spec);

// What the other rank does: the recv of a send, the send of a recv.
Action counterpart(const Action& message);
// Which rank that is.
inline int peer_of(const Action& message, const PipelineSpec& spec) {
  return spec.rank_of(counterpart(message).stage);
}

}  // namespace asup::parallel
