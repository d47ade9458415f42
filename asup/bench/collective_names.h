// The words for collectives on the command line: allreduce, reduce_scatter, allgather, … Values
// only; safe from any thread.
#pragma once

#include <string>

#include "asup/collective/plan/plan.h"

namespace asup::bench {

// As they are spelled there, or with an underscore. Throws BadInput that suggests the nearest.
collective::Collective collective_of(const std::string& word);

std::string word_for(collective::Collective collective);

}  // namespace asup::bench
