#include "asup/train/state/stage_watch.h"

#include <algorithm>
#include <utility>

#include "asup/base/error.h"
#include "asup/train/state/layer_times.h"

namespace asup::train {
namespace {

constexpr double kWorthIt = 1.1;  // times as fast
constexpr int kInARow = 2;        // what disturbs a worker for a moment is no reason

std::vector<int> first_layers(const std::vector<int>& layers) {
  std::vector<int> first{0};
  for (const int count : layers) first.push_back(first.back() + count);
  return first;
}

}  // namespace

parallel::CutProblem at_speeds_of(const CutStages& now, const std::vector<double>& seconds,
                                  const parallel::GridShape& shape,
                                  const parallel::PipelineSpec& spec) {
  const std::vector<int> first = first_layers(now.layers);
  std::vector<double> of_layers(static_cast<std::size_t>(shape.pipeline)), taken(of_layers.size());
  for (int stage = 0; stage < spec.stages(); ++stage)
    for (int layer = first[static_cast<std::size_t>(stage)];
         layer < first[static_cast<std::size_t>(stage) + 1]; ++layer) {
      const parallel::StageTimes& times = now.problem.layers[static_cast<std::size_t>(layer)].times;
      of_layers[static_cast<std::size_t>(spec.rank_of(stage))] += times.forward + times.backward;
    }
  for (int rank = 0; rank < shape.workers(); ++rank) {
    double& slowest = taken[static_cast<std::size_t>(place_of(rank, shape).pipeline)];
    slowest = std::max(slowest, seconds[static_cast<std::size_t>(rank)]);
  }
  parallel::CutProblem problem = now.problem;
  problem.ranks.resize(of_layers.size(), problem.ranks.front());
  for (std::size_t place = 0; place < of_layers.size(); ++place)
    problem.ranks[place].speed = of_layers[place] / taken[place];
  return problem;
}

std::optional<StageWatch::Change> StageWatch::look(Communicator& workers,
                                                   const parallel::PipelineStats& stats,
                                                   const CutStages& now,
                                                   const parallel::GridShape& shape,
                                                   const parallel::PipelineSchedule& schedule,
                                                   const parallel::PipelineSpec& spec) {
  const parallel::PipelineStats before = std::exchange(before_, stats);
  const auto micro_batches = static_cast<double>(stats.steps - before.steps) * spec.micro_batches;
  double own =
      micro_batches > 0 ? (stats.compute_seconds - before.compute_seconds) / micro_batches : 0;
  std::vector<double> seconds(static_cast<std::size_t>(workers.size()));
  workers.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(seconds)))
      .or_throw("the times of stages");
  if (std::ranges::min(seconds) <= 0) return std::nullopt;  // nothing was computed
  Change change{.to = {{}, at_speeds_of(now, seconds, shape, spec)}};
  change.to.layers = fastest_cut(change.to.problem, schedule, spec);
  const auto slowest = [&](const std::vector<int>& layers) {
    return slowest_of(first_layers(layers), change.to.problem, schedule, spec);
  };
  change.slowest_now = slowest(now.layers);
  change.slowest_then = slowest(change.to.layers);
  in_a_row_ = change.slowest_now > kWorthIt * change.slowest_then ? in_a_row_ + 1 : 0;
  if (in_a_row_ < kInARow) return std::nullopt;
  return change;
}

}  // namespace asup::train
