// Synchronous data parallelism by all-reduce as a way of training (all_reduce_replica.h): its
// options, and what follows from them.
#pragma once

#include "asup/config/value.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

constexpr auto names_of(BufferSync) {
  using enum BufferSync;
  return std::to_array<config::Named<BufferSync>>(
      {{"local", local}, {"broadcast", broadcast}, {"average", average}});
}

struct AllReduce {
  double bucket_mb = 25;
  BufferSync buffers = BufferSync::local;
  NonFinite non_finite = NonFinite::skip;
};

const Way& way_of(const AllReduce&);

}  // namespace asup
