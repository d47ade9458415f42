// How many samples could not be read. Used from the thread that trains.
#pragma once

#include <cstdint>

#include "asup/collective/communicator.h"
#include "asup/data/dataset.h"

namespace asup::train {

// By any rank, each counted once. Collective.
std::int64_t count_broken(Communicator& communicator, const data::Dataset& dataset);

}  // namespace asup::train
