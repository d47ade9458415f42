// DiLoCo as a way of training (diloco_replica.h): its options, and what follows from them.
#pragma once

#include "asup/config/value.h"
#include "asup/sync/averaging/diloco_replica.h"
#include "asup/sync/averaging/exchange_dtype.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

// In the end a round counts outer_lr / (1 - outer_momentum) times: once, as it does in an average.
struct DiLoCo {
  std::int64_t every = 10;  // H: steps between two exchanges of one fragment
  double outer_lr = 0.5;
  double outer_momentum = 0.5;
  std::int64_t outer_overlap = 0;  // an exchange takes so many steps' time; 0: workers wait for it
  std::int64_t fragments = 1;      // no more than `every`
  ExchangeDtype exchange_dtype = ExchangeDtype::f32;
  double exchange_density = 0;  // only this share of differences travels, in two bits each; 0: all
  double jitter_ms = 0;
  NonFinite non_finite = NonFinite::skip;
};

const Way& way_of(const DiLoCo&);

}  // namespace asup
