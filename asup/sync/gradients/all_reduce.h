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

// What gradients of weights travel in.
using Compress = kernels::Code;

namespace kernels {
constexpr auto names_of(Code) {
  using enum Code;
  return std::to_array<config::Named<Code>>({{"none", none},
                                             {"bf16", bf16},
                                             {"fp16", f16},
                                             {"int8", int8},
                                             {"int4", int4},
                                             {"onebit", onebit}});
}
}  // namespace kernels

// Whether what is lost by that is added to the gradients of the next step.
enum class Feedback { automatic, on, off };

constexpr auto names_of(Feedback) {
  using enum Feedback;
  return std::to_array<config::Named<Feedback>>({{"auto", automatic}, {"on", on}, {"off", off}});
}

struct AllReduce {
  double bucket_mb = 25;
  BufferSync buffers = BufferSync::local;
  NonFinite non_finite = NonFinite::skip;
  Compress compress = Compress::none;
  Feedback compress_feedback = Feedback::automatic;  // of int4 and onebit

  bool has_feedback() const;
};

const Way& way_of(const AllReduce&);

}  // namespace asup
