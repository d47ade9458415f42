// Training at one's own pace: every worker takes steps on its own samples, as fast as it can, and
// meets the others only at sync points. Used from one thread.
//
// The job is as far as the samples of all workers together, which each knows about by hearsay
// (gossip/gossip_progress.h). Who sees that a sync point is reached, at the end of an epoch, for a
// test, for a checkpoint, at the end of the run, because it is asked to stop, or because the time
// of a round is over (`--round-seconds`), calls the others; each ends the step it is in, and all
// meet. There counts become exact, and what was tallied is summed up; where a round or the run
// ends, models become one (Replica::synchronize()). Workers do a little more than was asked for:
// what was under way when the sync point was called.
//
// A worker that is late for a meeting, or holds one up, is done without until the next
// (`--merge-deadline`): a meeting that does not go on is given up by those who are in it, and they
// meet again without the ones to blame. What they are all to do or none of them, they agree on
// first (pairwise/quorum.h).
//
// A worker that is lost is missed at the next meeting: the others go on without it, and one says
// so. Nothing is lost but what it did since it last exchanged its model.
#pragma once

#include <functional>

#include "asup/train/loop/trainer.h"
#include "asup/train/state/run_state.h"

namespace asup::train {

// Trains to the last step of the run's phase, or to a sync point at which the loss has it change
// its way, or until any worker's `stop_asked`, which is looked at after every step. needs: a
// replica whose step() is not collective. Collective at meetings.
TrainEnd train_at_own_pace(RunState& run, Job& job, const std::function<bool()>& stop_asked);

}  // namespace asup::train
