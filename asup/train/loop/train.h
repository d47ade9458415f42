// A whole training run, as one rank of a job works on it. Used from one thread.
#pragma once

#include <functional>
#include <string>

#include "asup/net/job.h"
#include "asup/report/observer.h"
#include "asup/train/config.h"
#include "asup/train/job_life.h"
#include "asup/train/state/train_end.h"
#include "asup/train/step_hooks.h"

namespace asup::train {

// Trains, and leaves the run folder config.out behind (rank 0 does). Collective: all ranks give the
// same configuration, resolved, with workers = job.size(). `display` is told where the folder is
// kept. A run that is resumed in its folder and has no step left to do stays as it is.
// `stop_asked` is looked at after every step, or lease; when any rank's says so, all stop.
//
// Workers that join the job are taken in at the next step, and a job that goes on without lost
// workers goes on from its last checkpoint, where the way of staying in step does not do without
// them by itself: rank and size of the job may have changed when this returns.
//
// Where the job was started again, and has begun to write the folder in an earlier life, it goes on
// from the last checkpoint there.
//
// Throws BadInput for input that cannot be used, JobFailed where a peer was lost or ranks disagree,
// Error when a file cannot be written or the loss is no number any more.
TrainEnd train(Job& job, const TrainConfig& config, report::Observer& display,
               const std::function<bool()>& stop_asked, StepHooks& hooks, const JobLife& life = {});

}  // namespace asup::train
