// All that a distributed libtorch program needs: see train/distribute.h for the five lines.
#pragma once

#include "asup/base/error.h"
#include "asup/collective/communicator.h"
#include "asup/data/sampler.h"
#include "asup/net/job.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lars.h"
#include "asup/sync/model/sync_batch_norm.h"
#include "asup/sync/replica.h"
#include "asup/train/distribute.h"
#include "asup/train/strategy.h"
