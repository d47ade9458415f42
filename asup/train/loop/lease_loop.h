// Training through servers: workers lease runs of samples and push gradients, at whatever pace.
// Used from one thread.
//
// Between sync points workers meet nobody but the servers; rank 0 shows its own progress. At a sync
// point all have the same parameters, and meet: figures are summed up, tests and checkpoints made.
// Sync points are ends of epochs, tests, checkpoints and the end; and a worker that is asked to
// stop asks the servers for one at the end of the step that they are dealing out.
//
// A worker that is lost is missed at the next sync point: the others go on without it, its leases
// are done by them, and rank 0 says so. Where it is lost in the sync point itself, some may have
// ended it and others not: the servers know, and send all there again. The run is concluded at its
// last sync point. Rank 0 itself keeps the run folder: without it, the run ends.
#pragma once

#include <functional>

#include "asup/train/state/run_state.h"

namespace asup::train {

// Trains to the last step of the run's phase, or to the first sync point at which the loss has it
// change its way or any worker's `stop_asked` says so, and concludes the run. needs:
// run.context().server. Collective at sync points.
TrainEnd train_by_leases(RunState& run, Job& job, const std::function<bool()>& stop_asked);

}  // namespace asup::train
