// The rates that a job chooses its algorithms with, found when it starts. In this order:
//   1. what `asup tune`, or an earlier start, measured for the same hosts and links (cache.h): the
//      same job again chooses the same, and so gets the same bits;
//   2. the usual ones (rates.h), where there are few ranks and all are linked by memory: there the
//      choice is seldom close, and no job should wait for it;
//   3. measured now, and remembered.
#pragma once

#include "asup/collective/communicator.h"
#include "asup/collective/tuning/cache.h"
#include "asup/collective/tuning/surroundings.h"

namespace asup::collective::tuning {

enum class Origin { remembered, usual, measured };

struct StartRates {
  Rates rates;
  Origin origin;
};

// "as measured before", for people.
std::string_view in_words(Origin origin);

// Collective: all ranks get the same. The cache is looked at by rank 0 alone.
StartRates rates_at_start(Communicator& communicator, const Surroundings& surroundings,
                          const RatesCache& cache);

}  // namespace asup::collective::tuning
