#include "asup/sync/gradients/all_reduce.h"

#include <algorithm>

#include "asup/base/error.h"

namespace asup {
namespace {

using config::field;

MadeReplica make(const AllReduce& options, const ReplicaContext& context) {
  AllReduceOptions gradients;
  gradients.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * (1 << 20));
  gradients.first_bucket_bytes = std::min(gradients.first_bucket_bytes, gradients.bucket_bytes);
  gradients.buffers = options.buffers;
  gradients.non_finite = options.non_finite;
  gradients.code = options.compress;
  gradients.feedback = options.has_feedback();
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
}

}  // namespace

bool AllReduce::has_feedback() const {
  if (compress == Compress::none) return false;
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
                    "gradients of weights travel in fewer bytes: half, a quarter, an eighth or a "
                    "32nd; docs/compression.md"},
                   {"compress-feedback", field<&AllReduce::compress_feedback>(),
                    "what compress loses is added to the next step's gradients; auto: of int4 and "
                    "onebit"},
                   non_finite_setting<AllReduce>()},
      .capabilities =
          [](const AllReduce& options) {
            return Capabilities{.skips_non_finite = options.non_finite != NonFinite::apply};
          },
      .check = check,
      .make = make});
  return way;
}

}  // namespace asup
