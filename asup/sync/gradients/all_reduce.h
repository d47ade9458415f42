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

// Whose largest numbers travel: those of what the workers of a host have together, or each
// worker's.
enum class CompressPer { host, worker };

constexpr auto names_of(CompressPer) {
  using enum CompressPer;
  return std::to_array<config::Named<CompressPer>>({{"host", host}, {"worker", worker}});
}

struct AllReduce {
  double bucket_mb = 25;
  BufferSync buffers = BufferSync::local;
  NonFinite non_finite = NonFinite::skip;
  Shard shard = Shard::none;  // what each worker keeps a part of only
  CompressSetting compress = Compress::none;
  Feedback compress_feedback = Feedback::automatic;  // of int4 and onebit
  // Of topk and dgc: the share of numbers that travels, and how long it takes to come down to it.
  double compress_density = 0.001;
  StepOrShare compress_warmup{.number = 5, .is_share = true};
  CompressPer compress_per = CompressPer::host;
  std::int64_t compress_rank = 4;  // of powersgd
  // Of dgc, and of onebit with SGD's momentum, above 0: each worker's part of a tensor's average,
  // or each host's, is clipped before it is added up, to this norm by the root of their number. In
  // programs; asup train has --clip-norm.
  double clip_norm = 0;
  // Or a way of one's own (sync/compressors/compressor.h), in programs.
  CompressorFactory compressor{};
};

const Way& way_of(const AllReduce&);

}  // namespace asup
