// Records the timeline of this process, and brings those of a job's workers to the one that writes
// the file (docs/timeline.md). The thread that makes it, which trains, takes part in it until its
// end, and ends it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "asup/base/timeline.h"
#include "asup/collective/communicator.h"
#include "asup/distribute/torch_operators.h"
#include "asup/report/timeline/collect.h"

namespace asup {

class RecordedTimeline {
 public:
  struct Options {
    StepRange steps{};
    bool operators = false;  // torch's too
    std::string file;
  };

  // `rank`: in the job.
  RecordedTimeline(const Options& options, int rank);

  // All workers are there, in a new generation of the job perhaps: clocks are compared. Collective,
  // as is collect().
  void begin(Communicator& communicator, int rank);
  // What was recorded since the last time goes to the communicator's rank 0.
  void collect(Communicator& communicator);
  // The same among those who are left, as far as they come within some seconds.
  void collect_after_loss(Communicator& communicator) noexcept;
  // What has been collected here. Where it cannot be written, that is said, and nothing else.
  void write() noexcept;
  // With what this worker has recorded since.
  void write_own() noexcept;

  // Where nobody says when a step begins: it began when the last one ended.
  void end_step();

 private:
  const std::string file_;
  Timeline timeline_;
  report::TimelineCollector collector_;
  report::JobTimeline collected_;
  TimelineThread thread_;
  std::int64_t steps_ = 0;  // that have ended
  Clock::time_point step_began_ = Clock::now();
  std::optional<TorchOperators> operators_;
};

}  // namespace asup
