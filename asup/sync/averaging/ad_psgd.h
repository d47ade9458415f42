// AD-PSGD as a way of training (adpsgd_replica.h): its options, and what follows from them.
#pragma once

#include "asup/sync/averaging/adpsgd_replica.h"
#include "asup/sync/averaging/exchange_dtype.h"
#include "asup/sync/averaging/timed_rounds.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

struct AdPsgd {
  std::int64_t every = 1;
  std::string graph = "ring";                         // gossip/graph.h
  ExchangeDtype exchange_dtype = ExchangeDtype::f32;  // or bf16
  TimedRounds rounds{};                               // for asup train
  NonFinite non_finite = NonFinite::skip;
};

const Way& way_of(const AdPsgd&);

// What the replica is made with.
AdPsgdOptions pair_options(const AdPsgd& options, Seconds timeout, std::uint64_t seed);

}  // namespace asup
