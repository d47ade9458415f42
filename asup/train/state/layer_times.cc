#include "asup/train/state/layer_times.h"

#include <algorithm>
#include <limits>

#include "asup/base/clock.h"
#include "asup/base/error.h"
#include "asup/sync/model/kept_tensors.h"
#include "asup/tensors/tensor_places.h"

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

// Bytes of what each layer gives and leaves.
void weigh_layers(const std::vector<parallel::Layer>& layers, const Tensor& input,
                  std::vector<parallel::LayerCost>& costs) {
  Tensor x = input;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Tensor own = x.detach();
    if (own.is_floating_point()) own.requires_grad_(true);
    const TensorBytes bytes;
    const Tensor output = layers[i].forward(own);
    costs[i].activations = static_cast<double>(bytes.in_use());
    costs[i].output = static_cast<double>(output.nbytes());
    x = output.detach();
  }
}

double parameter_bytes(const torch::nn::Module& module, const parallel::Layer& layer) {
  double bytes = 0;
  for (const auto& parameter : module.named_parameters())
    if (layer.uses(parameter.key())) bytes += static_cast<double>(parameter->nbytes());
  return bytes;
}

// Numbers of a layer as they travel.
std::vector<double*> numbers_of(parallel::LayerCost& layer) {
  parallel::StageTimes& times = layer.times;
  return {&times.forward,    &times.backward,    &times.backward_input, &times.backward_weight,
          &layer.parameters, &layer.activations, &layer.output};
}

void take_over_first(Communicator& workers, std::vector<parallel::LayerCost>& layers) {
  std::vector<double> numbers;
  for (parallel::LayerCost& layer : layers)
    for (const double* number : numbers_of(layer)) numbers.push_back(*number);
  workers.broadcast(buffer_of(std::span(numbers)), 0).or_throw("what layers take");
  auto next = numbers.begin();
  for (parallel::LayerCost& layer : layers)
    for (double* number : numbers_of(layer)) *number = *next++;
}

}  // namespace

std::vector<parallel::LayerCost> time_layers(Communicator& tensor, torch::nn::Module& module,
                                             const std::vector<parallel::Layer>& layers,
                                             const Tensor& input, double copies) {
  at::Generator random = at::globalContext().defaultGenerator(at::kCPU);
  const Tensor drawn = random.get_state();
  const sync::KeptTensors buffers(sync::buffers_of(module));
  const double never = std::numeric_limits<double>::infinity();
  std::vector<parallel::LayerCost> costs;
  for (const parallel::Layer& layer : layers)
    costs.push_back({.name = layer.name,
                     .times = {never, never, 0, 0},
                     .parameters = copies * parameter_bytes(module, layer)});
  weigh_layers(layers, input, costs);
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

std::vector<parallel::LinkRate> links_of(const collective::Rates& rates,
                                         const std::vector<net::HostId>& hosts,
                                         const parallel::GridShape& shape) {
  std::vector<parallel::LinkRate> links;
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    bool far = false;
    for (int group = 0; group < shape.data; ++group)
      for (int part = 0; part < shape.tensor; ++part) {
        const auto host = [&](int place) {
          return hosts[static_cast<std::size_t>(rank_at({group, place, part}, shape))];
        };
        far = far || host(stage) != host((stage + 1) % shape.pipeline);
      }
    // The slowest of those that a byte passes: sender, network and receiver work at the same time.
    const collective::LinkRates& link = far ? rates.far : rates.near;
    const double byte = std::max({link.send_byte, link.recv_byte, link.wire_byte});
    links.push_back({.latency = link.latency + 2 * link.message,
                     .bandwidth = byte > 0 ? 1 / byte : parallel::LinkRate{}.bandwidth});
  }
  const auto is_like_first = [&](const parallel::LinkRate& link) {
    return link.latency == links.front().latency && link.bandwidth == links.front().bandwidth;
  };
  if (std::ranges::all_of(links, is_like_first)) links.resize(1);
  return links;
}

parallel::CutProblem of_all_workers(Communicator& workers, const parallel::GridShape& shape,
                                    parallel::CutProblem problem) {
  double own = seconds_of(problem.layers);
  std::vector<double> seconds(static_cast<std::size_t>(workers.size()));
  workers.all_gather(buffer_of(std::span(&own, 1)), buffer_of(std::span(seconds))).or_throw();
  take_over_first(workers, problem.layers);
  const double memory = problem.ranks.front().memory;
  problem.ranks = speeds_of(seconds, shape);
  for (parallel::RankCapacity& rank : problem.ranks) rank.memory = memory;
  return problem;
}

std::vector<int> fastest_cut(const parallel::CutProblem& problem,
                             const parallel::PipelineSchedule& schedule,
                             const parallel::PipelineSpec& spec) {
  const parallel::StageCut cut = cut_stages(problem, schedule, spec);
  std::vector<int> layers;
  for (std::size_t stage = 0; stage + 1 < cut.first.size(); ++stage)
    layers.push_back(cut.first[stage + 1] - cut.first[stage]);
  return layers;
}

}  // namespace asup::train
