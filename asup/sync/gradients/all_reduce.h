// Synchronous data parallelism by all-reduce as a way of training (all_reduce_replica.h): its
// options, and what follows from them.
#pragma once

#include "asup/config/step_or_share.h"
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

// What gradients of weights travel in: as they are, in a code, only their largest numbers, or as
// matrices of low rank.
enum class Compress { none, bf16, fp16, int8, int4, onebit, topk, dgc, powersgd };

constexpr auto names_of(Compress) {
  using enum Compress;
  return std::to_array<config::Named<Compress>>({{"none", none},
                                                 {"bf16", bf16},
                                                 {"fp16", fp16},
                                                 {"int8", int8},
                                                 {"int4", int4},
                                                 {"onebit", onebit},
                                                 {"topk", topk},
                                                 {"dgc", dgc},
                                                 {"powersgd", powersgd}});
}

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
  // Of topk and dgc: the share of numbers that travels, and how long it takes to come down to it.
  double compress_density = 0.001;
  StepOrShare compress_warmup{.number = 5, .is_share = true};
  std::int64_t compress_rank = 4;  // of powersgd
  // Or a way of one's own (sync/compressors/compressor.h), in programs.
  CompressorFactory compressor{};

  bool is_sparse() const { return compress == Compress::topk || compress == Compress::dgc; }
  bool has_feedback() const;  // of a code
};

const Way& way_of(const AllReduce&);

}  // namespace asup
