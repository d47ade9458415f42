// distribute() in a job whose servers keep embedding tables (embeddings.h), and maybe nothing else.
#pragma once

#include <memory>

#include "asup/distribute/distribute.h"

namespace asup {

std::unique_ptr<DistributedReplica> distribute_beside_tables(Job& job, torch::nn::Module& model,
                                                             torch::optim::Optimizer& optimizer,
                                                             const Strategy& strategy);

}  // namespace asup
