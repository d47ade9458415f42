#include "asup/sync/gradients/all_reduce.h"

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/sync/compressors/low_rank_gradients.h"
#include "asup/sync/compressors/sparse_gradients.h"

namespace asup {
namespace {

using config::field;

kernels::Code code_of(Compress compress) {
  using enum Compress;
  switch (compress) {
    case bf16:
      return kernels::Code::bf16;
    case fp16:
      return kernels::Code::f16;
    case int8:
      return kernels::Code::int8;
    case int4:
      return kernels::Code::int4;
    case onebit:
      return kernels::Code::onebit;
    case none:
    case topk:
    case dgc:
    case powersgd:
      return kernels::Code::none;
  }
  return kernels::Code::none;
}

// Exchanges, one a step, since the first that was sparse: a checkpoint has how many there were.
std::uint64_t warmup_of(const AllReduce& options, const ReplicaContext& context) {
  const std::int64_t steps = context.progress.steps;
  if (!options.compress_warmup.is_share || steps > 0)
    return static_cast<std::uint64_t>(options.compress_warmup.steps(steps));
  if (context.communicator.rank() == 0)
    log().warn(
        "compress-warmup = {} is a share of a run whose length is not known here: there is no "
        "warm-up; give a number of steps",
        options.compress_warmup.to_text());
  return 0;
}

CompressorFactory compressor_of(const AllReduce& options, const ReplicaContext& context) {
  using enum Compress;
  if (options.compress == powersgd) return sync::powersgd(static_cast<int>(options.compress_rank));
  if (!options.is_sparse()) return options.compressor;
  const sync::Sparsity sparsity{.density = options.compress_density,
                                .warmup = warmup_of(options, context)};
  return options.compress == dgc ? sync::dgc(sparsity) : sync::topk(sparsity);
}

MadeReplica make(const AllReduce& options, const ReplicaContext& context) {
  AllReduceOptions gradients;
  gradients.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * (1 << 20));
  gradients.first_bucket_bytes = std::min(gradients.first_bucket_bytes, gradients.bucket_bytes);
  gradients.buffers = options.buffers;
  gradients.non_finite = options.non_finite;
  gradients.code = code_of(options.compress);
  gradients.feedback = options.has_feedback();
  gradients.compressor = compressor_of(options, context);
  gradients.observed = context.observed;
  MadeReplica made;
  made.replica =
      make_all_reduce_replica(context.communicator, context.model, context.optimizer, gradients);
  return made;
}

void check(const AllReduce& options) {
  require(options.compress != Compress::onebit || options.has_feedback(),
          "compress onebit does not train without what it loses: leave out compress-feedback off");
  require(options.compress != Compress::none || options.compress_feedback != Feedback::on,
          "compress-feedback is for what is lost by compress, which is none");
  const std::string_view name = config::name_of_choice(options.compress);
  const bool is_low_rank = options.compress == Compress::powersgd;
  require((!options.is_sparse() && !is_low_rank) || options.compress_feedback != Feedback::off,
          "compress {} does not train without what it keeps: leave out compress-feedback off",
          name);
  require(!options.compressor || options.compress == Compress::none,
          "a compressor of one's own is instead of compress {}", name);
  const AllReduce usual;
  require(options.is_sparse() || options.compress_density == usual.compress_density,
          "compress-density is for compress topk and dgc, not {}", name);
  require(options.is_sparse() || options.compress_warmup == usual.compress_warmup,
          "compress-warmup is for compress topk and dgc, not {}", name);
  require(is_low_rank || options.compress_rank == usual.compress_rank,
          "compress-rank is for compress powersgd, not {}", name);
}

void check_model(const AllReduce& options, torch::nn::Module&, torch::optim::Optimizer& optimizer) {
  if (options.compress == Compress::dgc) (void)sync::momentum_to_take(optimizer);
}

}  // namespace

bool AllReduce::has_feedback() const {
  if (code_of(compress) == kernels::Code::none) return false;
  if (compress_feedback != Feedback::automatic) return compress_feedback == Feedback::on;
  return compress == Compress::int4 || compress == Compress::onebit;
}

const Way& way_of(const AllReduce&) {
  static const Way way(WayOf<AllReduce>{
      .name = "allreduce",
      .group = "All-reduce",
      .summary = "synchronous SGD: gradients of every step are averaged over all workers",
      .example = "--sync allreduce --algorithm ring",
      .settings = {{"bucket-mb",
                    field<&AllReduce::bucket_mb>(),
                    "gradients travel in buckets of about so many megabytes",
                    {0, 4096, true, false}},
                   {"buffers",
                    field<&AllReduce::buffers>(),
                    "BatchNorm statistics: each worker's own, rank 0's, or the average",
                    {},
                    {},
                    config::Scope::fixed},
                   {"compress", field<&AllReduce::compress>(),
                    "gradients of weights travel in fewer bytes: half, a quarter, an eighth, a "
                    "32nd, only their largest numbers, or as matrices of low rank; "
                    "docs/compression.md"},
                   {"compress-feedback", field<&AllReduce::compress_feedback>(),
                    "what compress loses is added to the next step's gradients; auto: of int4 and "
                    "onebit"},
                   {"compress-density",
                    field<&AllReduce::compress_density>(),
                    "compress topk and dgc: the share of numbers that travels",
                    {0, 0.5, true, false}},
                   {"compress-warmup", field<&AllReduce::compress_warmup>(),
                    "and steps, or the share of the run, in which it falls to that from a quarter"},
                   {"compress-rank",
                    field<&AllReduce::compress_rank>(),
                    "compress powersgd: the rank of the matrices",
                    {1, 64}},
                   non_finite_setting<AllReduce>()},
      .capabilities =
          [](const AllReduce& options) {
            return Capabilities{.skips_non_finite = options.non_finite != NonFinite::apply,
                                .clips = options.compress != Compress::dgc};
          },
      .check = check,
      .check_model = check_model,
      .make = make});
  return way;
}

}  // namespace asup
