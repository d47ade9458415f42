// Workers that train by themselves, with optimizers of their own, and now and then exchange
// parameters through servers, which keep a common model, the center.
//
//   easgd   elastic averaging: the center moves towards the worker, and the worker towards the
//           center, by the same force. Zhang, Choromanska and LeCun, "Deep learning with elastic
//           averaging SGD", NeurIPS 2015 (arXiv 1412.6651), equations 3 and 4. An exchange of
//           worker x with center c is, with a = elasticity / workers and c as it is before it,
//               f = a (c − x),   x ← x + f,   c ← c − f
//           In bsp the center is the one that all got at the exchange before. In the other paces
//           others have moved it meanwhile, so that the worker asks for it first. Where leases
//           differ in length, a is elasticity times the worker's share of the step.
//   mean    the center becomes the mean of the workers, weighed by their samples, and they go on
//           from it. Where the pace is not bsp, each counts for its share of a round.
//
// A push holds c − x, which servers take for a gradient of plain SGD (easgd), or parameters, and
// the servers' rule is kernels/update/merge.h (mean). Which workers wait for which is the pace's
// affair, as with gradients. The optimizer may be any, and its state stays here.
//
// Between exchanges the module has the worker's own parameters. At a sync point and at the end it
// has the center's, so that all test and save the same; going on, it has its own again.
//
// Memory: the center beside the worker's own parameters, 1x of them more than training alone, and
// what easgd pushes once more.
#pragma once

#include "asup/sync/server/server_replica.h"

namespace asup::sync {

// As make_server_replica(); needs: options.merge is not none.
std::unique_ptr<ServerReplica> make_merge_replica(Communicator& workers, net::MemberGroup group,
                                                  torch::nn::Module& module,
                                                  torch::optim::Optimizer& optimizer,
                                                  const ServerReplicaOptions& options);

}  // namespace asup::sync
