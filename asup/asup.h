// All that a distributed libtorch program needs: see distribute/distribute.h for the five lines.
#pragma once

#include "asup/base/error.h"
#include "asup/collective/communicator.h"
#include "asup/data/sampler.h"
#include "asup/distribute/distribute.h"
#include "asup/distribute/strategy.h"
#include "asup/net/job.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lars.h"
#include "asup/sync/averaging/ad_psgd.h"
#include "asup/sync/averaging/diloco.h"
#include "asup/sync/averaging/gossip.h"
#include "asup/sync/averaging/local_sgd.h"
#include "asup/sync/gradients/all_reduce.h"
#include "asup/sync/model/sync_batch_norm.h"
#include "asup/sync/replica.h"
#include "asup/sync/server/parameter_server.h"
