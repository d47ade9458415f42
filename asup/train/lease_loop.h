// Training through servers: workers lease runs of samples and push gradients, at whatever pace.
// Used from one thread.
//
// Between fences workers meet nobody but the servers; rank 0 shows its own progress. At a fence all
// have the same parameters, and meet: figures are summed up, tests and checkpoints made. Fences are
// ends of epochs, tests, checkpoints and the end; and a worker that is asked to stop asks the
// servers for one at the end of the step that they are dealing out.
//
// A worker that is lost is missed at the next fence: the others go on without it, its leases are
// done by them, and rank 0 says so. Where it is lost in the fence itself, some may have ended it
// and others not: the servers know, and send all there again. The run is concluded at its last
// fence. Rank 0 itself keeps the run folder: without it, the run ends.
#pragma once

#include <functional>

#include "asup/train/run.h"

namespace asup::train {

// Trains to the last step of the run's phase, or to the first fence at which the loss has it change
// its way or any worker's `stop_asked` says so, and concludes the run. needs: run.setup().server.
// Collective at fences.
TrainEnd train_by_leases(Run& run, Job& job, const std::function<bool()>& stop_asked);

}  // namespace asup::train
