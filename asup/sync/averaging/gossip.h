// Synchronous gossip as a way of training (gossip_replica.h): its options, and what follows.
#pragma once

#include "asup/sync/averaging/exchange_dtype.h"
#include "asup/sync/averaging/gossip_replica.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

struct Gossip {
  std::int64_t every = 1;
  std::string graph = "ring";  // or exponential
  ExchangeDtype exchange_dtype = ExchangeDtype::f32;
  double jitter_ms = 0;
  NonFinite non_finite = NonFinite::skip;
};

const Way& way_of(const Gossip&);

}  // namespace asup
