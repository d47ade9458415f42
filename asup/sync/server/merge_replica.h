// Workers that train by themselves, with optimizers of their own, and now and then exchange
// parameters through servers, which keep a common model, the center.
//
//   easgd   elastic averaging: the center moves towards the worker, and the worker towards the
//           center. Zhang, Choromanska and LeCun, "Deep learning with elastic averaging SGD",
//           NeurIPS 2015. An exchange of worker x with center c is, with a = elasticity / workers,
//               c ← c + a (x − c),   then   x ← x + a (c − x)
//           The paper moves both by the same difference; here the center comes first, as in its
//           authors' Gauss-Seidel form, so that one push and its answer are an exchange.
//   mean    the center becomes the mean of the workers, weighed by their samples, and they go on
//           from it. Where the pace is not bsp, each counts for its share of a round.
//
// A push holds parameters, and the servers' rule is kernels/update/merge.h. Which workers wait for
// which is the pace's affair, as with gradients. The optimizer may be any, and its state stays
// here.
//
// Between exchanges the module has the worker's own parameters. At a sync point and at the end it
// has the center's, so that all test and save the same; going on, it has its own again.
//
// Memory: the center beside the worker's own parameters, 1x of them more than training alone.
#pragma once

#include "asup/sync/server/server_replica.h"

namespace asup::sync {

// As make_server_replica(); needs: options.merge is not none.
std::unique_ptr<ServerReplica> make_merge_replica(Communicator& workers, net::MemberGroup group,
                                                  torch::nn::Module& module,
                                                  torch::optim::Optimizer& optimizer,
                                                  const ServerReplicaOptions& options);

}  // namespace asup::sync
