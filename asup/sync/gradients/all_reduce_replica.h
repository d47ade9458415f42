// Synchronous data parallelism: every rank's gradients are averaged before every step.
//
// Gradients lie in buckets in the order backward reaches them (last layer first); a bucket leaves
// by all-reduce as its last gradient arrives, while backward goes on, always in bucket order, which
// all ranks share. With plain SGD, N ranks with batch B/N follow one process with batch B.
//
// When backward returns, grad() holds the average, to be read and clipped, until the optimizer's
// zero_grad(), with or without set_to_none; without zero_grad(), the next backward adds to it, as
// in one process. Two backward passes before a step are exchanged one by one, also a backward
// inside of another; NoSync around the first saves one. A rank without data calls step() alone: the
// others wait for it in backward.
//
// All ranks have the same bits after every step, unless some are on a CPU and others on GPUs: these
// round differently, and models may differ, by rounding alone, until synchronize().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "asup/base/non_finite.h"
#include "asup/collective/communicator.h"
#include "asup/sync/compressors/compressor.h"
#include "asup/sync/model/model_parts.h"
#include "asup/sync/replica.h"
#include "asup/sync/sharded/shard.h"

namespace asup {

// What to do with a module's buffers (BatchNorm statistics), which are not shared parameters.
enum class BufferSync {
  local,      // each rank keeps its own
  broadcast,  // rank 0's, with every step
  average     // the average, with every step
};

struct AllReduceOptions {
  std::size_t bucket_bytes = 25u << 20;
  std::size_t first_bucket_bytes = 4u << 20;  // small, so that the exchange starts early
  // Gradients of this size are averaged where autograd made them (gradient_arena.h, which changes
  // where torch takes memory from while the replica lives); smaller ones are copied into buckets.
  // The largest value: all.
  std::size_t in_place_bytes = 1u << 20;
  BufferSync buffers = BufferSync::local;
  NonFinite non_finite = NonFinite::skip;
  // Weights' gradients travel in a code of fewer bytes (gradient_exchange.h).
  kernels::Code code = kernels::Code::none;
  bool feedback = false;           // what the code loses is added to the next step's gradients
  CompressorFactory compressor{};  // or as this has them travel
  // What each rank keeps a part of only (sync/sharded/). Not beside a compressor that takes the
  // momentum, which would be kept whole.
  Shard shard = Shard::none;
  // Of a compressor that takes the momentum, and clips what is sparse before it leaves: the norm of
  // each other gradient. Else that of all gradients, when they have come.
  double clip_norm = 0;
  // What the model is a part of: gradients of all parts are clipped by one norm, and left out
  // together.
  sync::ModelParts parts{};
  // Where a rank is lost while gradients are exchanged: brings those who are left together, each of
  // whom calls recover_step() meanwhile, and says whether it could. Then they exchange the same
  // gradients once more: for those who cannot compute them again. Not with shards, nor with a
  // compressor that has several calls for a bucket.
  std::function<bool()> regroup{};
  std::string
      observed{};        // what Replica::observed() said before; empty: observed in the first step
  std::string chosen{};  // what it says before that, of how these options came about
};

// Makes all ranks' parameters and buffers equal to rank 0's, checks that the models have the same
// parameters (JobFailed names the first that differs), and hooks into backward. Throws BadInput for
// a model or optimizer that cannot be trained this way. `module`, `optimizer` and the communicator
// must outlive the replica, which alone may use this communicator. Collective.
std::unique_ptr<Replica> make_all_reduce_replica(Communicator& communicator,
                                                 torch::nn::Module& module,
                                                 torch::optim::Optimizer& optimizer,
                                                 const AllReduceOptions& options = {});

}  // namespace asup
