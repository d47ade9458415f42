// Whether the stages of a pipeline should be cut again (`--rebalance`): their workers have become
// slower or faster than they were when it was cut. Used from the thread that trains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/parallel/cut/stage_cut.h"
#include "asup/parallel/grid.h"
#include "asup/parallel/pipeline/executor.h"

namespace asup::train {

// Stages of so many layers each, by what their workers take.
struct CutStages {
  std::vector<int> layers;
  parallel::CutProblem problem;
};

// The problem with ranks as fast as they have been: `seconds` of each worker are of a micro-batch
// in all stages that it has. Pure.
parallel::CutProblem at_speeds_of(const CutStages& now, const std::vector<double>& seconds,
                                  const parallel::GridShape& shape,
                                  const parallel::PipelineSpec& spec);

class StageWatch {
 public:
  // Of the pipeline whose stats these are.
  explicit StageWatch(const parallel::PipelineStats& stats) : before_(stats) {}

  struct Change {
    CutStages to;
    double slowest_now = 0, slowest_then = 0;  // seconds of a micro-batch in the slowest stage
  };
  // What to change to, where the slowest stage would take less than 10/11 of its time by the steps
  // since the last call, and by those before that one. The same on all workers. Collective.
  std::optional<Change> look(Communicator& workers, const parallel::PipelineStats& stats,
                             const CutStages& now, const parallel::GridShape& shape,
                             const parallel::PipelineSchedule& schedule,
                             const parallel::PipelineSpec& spec);

 private:
  parallel::PipelineStats before_;
  int in_a_row_ = 0;  // looks that found a better cut
};

}  // namespace asup::train
