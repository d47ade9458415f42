// A run that goes on when its job changes: workers join it, or are lost. Each generation of the job
// (net/job.h) is a run of its own that resumes from the last checkpoint of the one before.
#pragma once

#include "asup/net/job.h"
#include "asup/train/config.h"

namespace asup::train {

// Whether the run has begun to write its folder, and this rank sees it.
enum class Begun { not_yet, in_sight, elsewhere };

// Whether this worker sees the folder, as the one that keeps it has begun to write it.
bool sees_folder(const TrainConfig& config);

// Collective. The settings of this generation of the job: in the first the given ones, which must
// be of so many workers, with rank 0's folder; then rank 0's. All go on from the newest checkpoint
// of its folder, where the run had begun to write there (in an earlier generation, or an earlier
// life of the job); else from where the run was to begin.
// They are of the workers that train, which come first; the others are spares.
// Throws JobFailed where rank 0 does not see the folder that another one wrote, and where workers
// are too few to train a model together.
TrainConfig settings_of_generation(Job& job, const TrainConfig& config, Begun begun);

}  // namespace asup::train
