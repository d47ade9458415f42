#include "asup/sync/gradients/all_reduce.h"

#include <algorithm>

namespace asup {
namespace {

using config::field;

MadeReplica make(const AllReduce& options, const ReplicaContext& context) {
  AllReduceOptions gradients;
  gradients.bucket_bytes = static_cast<std::size_t>(options.bucket_mb * (1 << 20));
  gradients.first_bucket_bytes = std::min(gradients.first_bucket_bytes, gradients.bucket_bytes);
  gradients.buffers = options.buffers;
  gradients.non_finite = options.non_finite;
  gradients.observed = context.observed;
  MadeReplica made;
  made.replica =
      make_all_reduce_replica(context.communicator, context.model, context.optimizer, gradients);
  return made;
}

}  // namespace

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
                   non_finite_setting<AllReduce>()},
      .capabilities =
          [](const AllReduce& options) {
            return Capabilities{.skips_non_finite = options.non_finite != NonFinite::apply};
          },
      .make = make});
  return way;
}

}  // namespace asup
