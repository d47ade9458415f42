// From a call, as one rank makes it, to the Spec that all ranks share. Pure functions; safe from
// any thread.
#pragma once

#include "asup/collective/communicator.h"

namespace asup::collective {

// What a call among `ranks` asks for, but for what the caller's memory is like. Throws BadInput
// where the whole would have more elements than any memory holds.
Spec spec_of(const Call& call, int ranks);

// Whether every rank has elements in its input or output. A rank without any cannot tell whether
// the others' buffers are within reach, so that a call with such a rank counts as one of private
// memory.
bool everyone_has_elements(const Spec& spec);

}  // namespace asup::collective
