// What a schedule takes: the schedules of all ranks, run by a clock that is only reckoned. In it,
//   - a rank carries its actions out in order; a computation takes its stage's time, divided by the
//     rank's speed;
//   - a message leaves at its send's place, beside what follows, and arrives after the link's
//     latency and the time that its bytes take; messages from one rank to another take turns;
//   - a recv is posted early, so that it ends as soon as the message is there.
// Times are in any one unit, which the result is in too. The same input gives the same result.
// Pure; safe from any thread.
#pragma once

#include <vector>

#include "asup/parallel/schedule/schedule.h"

namespace asup::parallel {

// Of a micro-batch, on a rank of speed 1.
struct StageTimes {
  double forward = 1;
  double backward = 2;  // whole; what splitting it takes more, if anything, is in the other two
  double backward_input = 1;
  double backward_weight = 1;

  double of(Action::Op op) const;  // 0 for messages
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  // of each; needs: spec.stages() of them
  std::vector<double> speeds;      // of each rank; empty: 1
  double latency = 0;              // of a message
  std::vector<double> transfer;    // of what stage s sends to s+1, or gets back; empty: 0
};

// The same times for all stages: those of a rank's whole part of the model, dealt out to its
// chunks.
PipelineTimes equal_times(const StageTimes& rank, const PipelineSpec& spec);

struct TimedAction {
  Action action;
  // A send's, from its place to the arrival; a recv's, from when its rank waits for it.
  double begin = 0, end = 0;
};

struct Price {
  std::vector<std::vector<TimedAction>> ranks;
  double makespan = 0;           // of a step
  double alone = 0;              // of the same step on the fastest rank, backward whole
  std::vector<double> busy;      // of each rank: the time that it computes
  std::vector<int> activations;  // of each rank: micro-batches, over its chunks, held at most

  double speedup() const { return alone / makespan; }
  // The shortest computation of those that take time.
  double shortest() const;
  // Shares of the step in which a rank, or all of them together, computes nothing.
  double bubble(int rank) const;
  double bubble() const;
};

// Throws Error where the schedules do not end, which verify() explains, and BadInput for times that
// are none.
Price price(const PipelineSpec& spec, const std::vector<Schedule>& schedules,
            const PipelineTimes& times);

}  // namespace asup::parallel
