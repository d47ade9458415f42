// Synchronous data parallelism by all-reduce as a way of training (all_reduce_replica.h): its
// options, and what follows from them.
#pragma once

#include "asup/config/step_or_share.h"
#include "asup/config/value.h"
#include "asup/sync/gradients/all_reduce_replica.h"
#include "asup/sync/gradients/compress.h"
#include "asup/sync/non_finite_setting.h"
#include "asup/sync/way.h"

namespace asup {

constexpr auto names_of(BufferSync) {
  using enum BufferSync;
  return std::to_array<config::Named<BufferSync>>(
      {{"local", local}, {"broadcast", broadcast}, {"average", average}});
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
  CompressSetting compress = Compress::none;
  Feedback compress_feedback = Feedback::automatic;  // of int4 and onebit
  // Of topk and dgc: the share of numbers that travels, and how long it takes to come down to it.
  double compress_density = 0.001;
  StepOrShare compress_warmup{.number = 5, .is_share = true};
  std::int64_t compress_rank = 4;  // of powersgd
  // Of dgc, above 0: each worker's part of a tensor's average is clipped before it is added up, to
  // this norm by the root of the number of workers. In programs; asup train has --clip-norm.
  double clip_norm = 0;
  // Or a way of one's own (sync/compressors/compressor.h), in programs.
  CompressorFactory compressor{};

  // Of a code, which is one that compress may be.
  bool has_feedback(Compress code) const;
};

const Way& way_of(const AllReduce&);

}  // namespace asup
