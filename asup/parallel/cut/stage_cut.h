// Where to cut a model into the stages of a pipeline, so that the slowest stage is as fast as can
// be: exactly, by dynamic programming over the layers (as PipeDream's partitioner, Narayanan et al.
// 2019), from measured times and sizes, on ranks of unequal speed and memory. Pure; safe from any
// thread.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "asup/parallel/schedule/cost.h"

namespace asup::parallel {

struct LayerCost {
  std::string name;
  StageTimes times;        // seconds of a micro-batch, on a rank of speed 1
  double parameters = 0;   // bytes of its weights, their gradients and the optimizer's state
  double activations = 0;  // bytes that a micro-batch leaves until its backward
  double output = 0;       // bytes of a micro-batch that the next layer gets, and has a gradient of
};

struct RankCapacity {
  double speed = 1;
  double memory = std::numeric_limits<double>::infinity();  // bytes
};

struct LinkRate {
  double latency = 0;                                          // seconds
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes a second, each way
};

struct CutProblem {
  std::vector<LayerCost> layers;
  std::vector<RankCapacity> ranks;  // one for all, or each
  // From each rank to the next, and from the last to the first; one for all; empty: no time.
  std::vector<LinkRate> links;
  // Beside computation, a message costs a stage nothing as long as its link keeps up; else a stage
  // waits for what it sends and gets.
  bool messages_beside = true;
  // A stage keeps what enters it, and activations of one micro-batch at a time.
  bool recompute = false;
};

struct StageCut {
  std::vector<int> first;  // layer of each stage, and behind them: how many layers there are
  std::vector<RankCapacity> ranks;  // in their order
  double slowest = 0;               // seconds of a micro-batch in the slowest stage, there and back
};

// Layers for each stage, one at least, such that each rank's memory holds their parameters and the
// activations of as many micro-batches as the schedule leaves there. Of a rank with several stages
// each gets an equal part of its memory. Among equal cuts, earlier stages get fewer layers.
//
// Throws BadInput that names the layer or rank that does not fit. needs: require_valid(schedule,
// spec)
StageCut cut_stages(const CutProblem& problem, const PipelineSchedule& schedule,
                    const PipelineSpec& spec);

// Seconds of a micro-batch in the slowest stage of another cut, whose stages begin with these
// layers, whether it fits the memories or not. needs: as many stages, of all layers
double slowest_of(const std::vector<int>& first, const CutProblem& problem,
                  const PipelineSchedule& schedule, const PipelineSpec& spec);

// The best of all orders of the ranks, the given one if it is among them. Throws BadInput, too,
// where links differ, or orders are more than some ten thousand.
StageCut cut_stages_in_any_order(const CutProblem& problem, const PipelineSchedule& schedule,
                                 const PipelineSpec& spec);

// What price() takes: times of the stages, the ranks' speeds, and what the borders transfer.
PipelineTimes times_of(const StageCut& cut, const CutProblem& problem, const PipelineSpec& spec);

}  // namespace asup::parallel
