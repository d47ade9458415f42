#include "asup/train/state/layer_times.h"

#include <algorithm>
#include <limits>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/sync/model/kept_tensors.h"

namespace asup::train {
namespace {

using torch::Tensor;

// Of the rounds the fastest counts: where workers share cores, few go undisturbed.
constexpr int kLeastRounds = 3;
constexpr double kSeconds = 0.5;
constexpr double kNoise = 1.5;  // by which equal workers' times may differ

double seconds_of(const std::vector<parallel::LayerCost>& layers) {
  double seconds = 0;
  for (const parallel::LayerCost& layer : layers)
    seconds += layer.times.forward + layer.times.backward;
  return seconds;
}

// One layer by itself; returns its output without a graph.
Tensor time_layer(const parallel::Layer& layer, const Tensor& input, parallel::StageTimes& times) {
  Tensor own = input.detach();
  if (own.is_floating_point()) own.requires_grad_(true);
  const auto begin = Clock::now();
  const Tensor output = layer.forward(own);
  const auto there = Clock::now();
  if (output.requires_grad()) output.backward(torch::ones_like(output));
  const double forward = Seconds(there - begin).count(), backward = seconds_since(there);
  times.forward = std::min(times.forward, forward);
  times.backward = std::min(times.backward, backward);
  return output.detach();
}

// Of stages, whose slowest worker counts. What differs by little is taken for noise.
std::vector<parallel::RankCapacity> speeds_of(const std::vector<double>& seconds,
                                              const parallel::GridShape& shape) {
  std::vector<parallel::RankCapacity> speeds(static_cast<std::size_t>(shape.pipeline));
  const auto [fastest, slowest_of_all] = std::ranges::minmax_element(seconds);
  if (*slowest_of_all < kNoise * *fastest) return speeds;
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    double slowest = 0;
    for (int group = 0; group < shape.data; ++group)
      for (int part = 0; part < shape.tensor; ++part)
        slowest = std::max(slowest,
                           seconds[static_cast<std::size_t>(rank_at({group, stage, part}, shape))]);
    speeds[static_cast<std::size_t>(stage)].speed = seconds.front() / slowest;
  }
  return speeds;
}

}  // namespace

std::vector<parallel::LayerCost> time_layers(Communicator& tensor, torch::nn::Module& module,
                                             const std::vector<parallel::Layer>& layers,
                                             const Tensor& input) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const Tensor drawn = random.get_state();
  const sync::KeptTensors buffers(sync::buffers_of(module));
  const double never = std::numeric_limits<double>::infinity();
  std::vector<parallel::LayerCost> costs;
  for (const parallel::Layer& layer : layers)
    costs.push_back({.name = layer.name, .times = {never, never, 0, 0}});
  const auto begin = Clock::now();
  std::int32_t goes_on = 1;
  for (int round = 1; goes_on != 0; ++round) {
    Tensor x = input;
    for (std::size_t i = 0; i < layers.size(); ++i) x = time_layer(layers[i], x, costs[i].times);
    goes_on = round < kLeastRounds || seconds_since(begin) < kSeconds ? 1 : 0;
    tensor.broadcast(buffer_of(std::span(&goes_on, 1)), 0).or_throw("timing layers");
  }
  for (const Tensor& parameter : module.parameters()) parameter.mutable_grad() = Tensor();
  random.set_state(drawn);
  // Which part of backward is of the input is not told apart.
  for (parallel::LayerCost& cost : costs)
    cost.times.backward_input = cost.times.backward_weight = cost.times.backward / 2;
  return costs;
}

std::vector<int> fastest_cut(Communicator& workers, const parallel::GridShape& shape,
                             const std::vector<parallel::LayerCost>& times,
                             const parallel::PipelineSchedule& schedule,
                             const parallel::PipelineSpec& spec) {
  double own = seconds_of(times);
  std::vector<double> seconds(static_cast<std::size_t>(workers.size()));
  workers.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(seconds))).or_throw();
  std::vector<double> of_first;
  for (const parallel::LayerCost& layer : times) {
    of_first.push_back(layer.times.forward);
    of_first.push_back(layer.times.backward);
  }
  workers.broadcast(buffer_of(std::span(of_first)), 0).or_throw();
  parallel::CutProblem problem{.layers = times, .ranks = speeds_of(seconds, shape), .links = {}};
  for (std::size_t i = 0; i < times.size(); ++i) {
    parallel::StageTimes& each = problem.layers[i].times;
    each = {of_first[2 * i], of_first[2 * i + 1], of_first[2 * i + 1] / 2, of_first[2 * i + 1] / 2};
  }
  const parallel::StageCut cut = cut_stages(problem, schedule, spec);
  std::vector<int> layers;
  for (std::size_t stage = 0; stage + 1 < cut.first.size(); ++stage)
    layers.push_back(cut.first[stage + 1] - cut.first[stage]);
  return layers;
}

}  // namespace asup::train
