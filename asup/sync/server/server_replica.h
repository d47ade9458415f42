// Data parallelism through a parameter server (asup/ps): workers push gradients, servers update the
// parameters by the rule of the user's optimizer, and workers get them back.
//
// Gradients leave bucket by bucket while backward runs. step() pushes what is left (zeros for
// gradients that did not come), and returns when the pace lets this worker go on, with the
// parameters to go on with. How they came to be is the pace's affair (ps/pace/options.h): in bsp,
// n workers with parts of a batch do what one process does with all of it; in the others a worker
// may be ahead of others, and check_equal() makes sense only at a sync point.
//
// What differs from a replica by all-reduce:
//   - grad() is this worker's own gradient, before and after step(). Gradients leave as backward
//     makes them: step() throws where they were changed since. clip_grad_norm() clips what servers
//     apply, and leaves grad() as it is. To change them otherwise, run backward with NoSync, then
//     call step(), which pushes what grad() holds then. finish_exchange() throws.
//   - A second backward before step() throws, unless the first ran with NoSync.
//   - A parameter that no worker used has a gradient of zeros: momentum and weight decay move it.
//   - Where gradients and parameters travel in a code, a worker's parameters are what came of
//     differences that were rounded, near those of the servers (ps/coded_difference.h). With equal
//     versions in bsp, they are the same on all workers. synchronize() fetches the servers'; the
//     worker trains on from where it was.
//   - The optimizer's options count when the replica is made, but for the learning rate, which is
//     taken at each step() and is one for all shared parameters. Its state is on the servers, which
//     begin with what rank 0's has; gather_optimizer_state() fetches it.
//
// Not shared are buffers (BatchNorm statistics), parameters that the optimizer does not have or
// that need no gradient, and those that ServerReplicaOptions::local names: equal at first, then
// each worker's own. `local` ones are trained by the user's optimizer itself, here.
//
// Memory of a worker: parameters move into memory that servers of its host write, and are not kept
// twice; large gradients are made where they leave from, small ones are copied into a bucket, which
// takes their place. There is no optimizer state. So it needs no more than one process that trains
// alone, but for the alignment of tensors and buckets; with feedback of a code, weights are kept
// twice more, and once more from a test, checkpoint or synchronize() to the next step.
//
// Workers that find their samples themselves are weighed by what describe_batch() says, which all
// of them call before each step(), or none; then a step is the last batch of each of them, and a
// push its part of that. Without it, all pushes count alike. With leases, the samples of a step are
// those of the lease, and without describe_batch() its loss is unknown.
//
// Used from the thread that trains; gradients leave on autograd's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/kernels/code.h"
#include "asup/layout/buckets.h"
#include "asup/net/member_group.h"
#include "asup/ps/message.h"
#include "asup/ps/pace/options.h"
#include "asup/ps/pace/sample_allocator.h"
#include "asup/sync/model/model_parts.h"
#include "asup/sync/model/tensors.h"
#include "asup/sync/model/unshared.h"
#include "asup/sync/replica.h"

namespace asup {

// What workers exchange with the servers: gradients of every step, or, now and then, parameters
// that are merged with the servers' (merge_replica.h).
enum class Merge { none, easgd, mean };

struct ServerReplicaOptions {
  std::size_t bucket_bytes = 25u << 20;
  std::size_t first_bucket_bytes = 4u << 20;
  std::size_t in_place_bytes = 1u << 20;  // as in AllReduceOptions
  layout::BucketRules bucket_sizes() const {
    return {bucket_bytes, first_bucket_bytes, in_place_bytes};
  }

  ps::pace::Options pace{};
  std::optional<ps::pace::Workload> work{};  // none: workers find their samples themselves
  double compensation = 0;                   // lambda of delay compensation (DC-ASGD); 0: none
  Merge merge = Merge::none;
  std::int64_t every = 1;   // merge: steps between two exchanges; with `work`, a lease
  double elasticity = 0.9;  // merge easgd: the workers' moving rates, summed

  // Parameters that stay on the worker: whole names ("head.weight"), or what they begin with and a
  // dot ("head.").
  std::vector<std::string> local{};
  Unshared evaluate_with = Unshared::average;
  // What gradients of weights, and what these have changed by, travel in. With feedback, what it
  // loses of gradients is added to those of the next step; without merge.
  kernels::Code code = kernels::Code::none;
  bool feedback = false;
  // What the module is a part of. The workers that have the parts of one model are to the servers
  // one worker: they get the same leases, and what they push counts when all of it is there.
  // Without merge, local parameters and a code.
  sync::ModelParts parts{};
  Seconds timeout{300};
};

class ServerReplica : public Replica {
 public:
  // With a merge: a step that is followed by others before the exchange. A lease is as many of them
  // as the caller likes, and the last is a step().
  virtual void step_alone() = 0;

  // What this worker was told to do next: by the last step() or arrive().
  virtual const ps::Release& release() const = 0;
  // Asks for parameters and work, and waits for them: where workers lease samples, first of all and
  // after every sync point, with the ranks that this worker met there, its own included. Where one
  // of them is lost, it may be sent to the same sync point again.
  virtual void arrive(const std::vector<int>& met = {}) = 0;

  // `prepare` is called when it is known what to do next and parameters may still be on their way,
  // on the thread that trains: to read the samples meanwhile.
  virtual void when_released(std::function<void(const ps::Release&)> prepare) = 0;

  // Where workers lease samples: all are to meet at a sync point at the end of the step that is
  // being dealt out.
  virtual void ask_for_sync_point() = 0;

  // Buffers and local parameters, which average_buffers() makes equal as `evaluate_with` says.
  virtual const std::vector<sync::NamedTensor>& unshared() const = 0;

  // With a merge: while true, the module has the servers' parameters, as they were at the last
  // exchange, and no step can be taken. At a sync point it has them anyway.
  virtual void show_common(bool common) = 0;

  // One worker, between two steps, at a sync point or the end: what the head tells of the pace, as
  // JSON.
  virtual std::string report() = 0;
};

// The worker of rank 0 provides the first parameters and buffers; JobFailed names the first thing
// in which workers' models differ. Throws BadInput for a model or optimizer that cannot be trained
// this way. Everything must outlive the replica. `workers` is used for models, buffers and
// check_equal(), between steps; of parts, these are the workers that have the same one. Without
// `work`, the replica arrives by itself. Collective.
std::unique_ptr<ServerReplica> make_server_replica(Communicator& workers, net::MemberGroup group,
                                                   torch::nn::Module& module,
                                                   torch::optim::Optimizer& optimizer,
                                                   const ServerReplicaOptions& options = {});

}  // namespace asup
