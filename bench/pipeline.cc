// One process of bench/pipeline.py: trains a GPT of equal blocks, alone or as a stage of a
// pipeline, as many steps as it is told on standard input, and prints what each took.
//
//   bench_pipeline alone|stream|SCHEDULE micro-batches depth width [RANK:FACTOR]
//
// Stages have as many blocks each. With RANK:FACTOR that rank sleeps after all that it computes, so
// that it takes so many times as long, and stages are cut by the measured costs of layers.
//
// Reads "N" lines, answers each with N step times in microseconds on one line; "0" is answered by
// the share of a step in which the ranks stood still, measured, and as the price of the schedule
// predicts it from the measured times of its stages. One thread computes.
#include "asup/parallel/pipeline/pipeline.h"

#include <torch/torch.h>

#include <array>
#include <iostream>
#include <string>
#include <thread>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/models/model.h"
#include "asup/models/task.h"
#include "asup/net/job.h"
#include "asup/parallel/cut/stage_cut.h"
#include "asup/parallel/pipeline/streaming_pipeline.h"
#include "asup/parallel/schedule/cost.h"
#include "asup/parallel/tensor_cut.h"

namespace {

using asup::parallel::Pipeline;
using torch::Tensor;

constexpr std::int64_t kTokens = 128, kVocabulary = 256, kSamples = 16;

struct Subject {
  std::shared_ptr<asup::models::Model> model;
  Tensor input, target;
};

Subject make_subject(int depth, int width) {
  torch::manual_seed(1);
  return {asup::models::make_model("gpt", {.input_shape = {kTokens},
                                           .classes = kVocabulary,
                                           .width = width,
                                           .depth = depth,
                                           .text = true}),
          torch::randint(kVocabulary, {kSamples, kTokens}),
          torch::randint(kVocabulary, {kSamples, kTokens})};
}

Tensor loss_of(const Tensor& scores, const Tensor& target) {
  return asup::models::sum_of_losses(scores, target) / target.size(0);
}

template <typename Step, typename Report>
void serve(const Step& step, const Report& report) {
  std::cout << "ready" << std::endl;
  for (int steps = 0; std::cin >> steps;) {
    if (steps == 0) report();
    for (int i = 0; i < steps; ++i) {
      const auto start = asup::Clock::now();
      step();
      std::cout << asup::seconds_since(start) * 1e6 << ' ';
    }
    std::cout << std::endl;
  }
}

void serve_alone(Subject subject, int micro_batches) {
  torch::optim::SGD optimizer(subject.model->parameters(), torch::optim::SGDOptions(0.01));
  const auto step = [&] {
    optimizer.zero_grad();
    const auto inputs = subject.input.chunk(micro_batches);
    const auto targets = subject.target.chunk(micro_batches);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      (loss_of(subject.model->forward(inputs[i]), targets[i]) / micro_batches).backward();
    optimizer.step();
  };
  serve(step, [] { std::cout << "0 0"; });
}

double measured_bubble(asup::Communicator& ranks, const asup::parallel::PipelineStats& stats) {
  std::array<double, 1> share{1 - stats.compute_seconds / stats.seconds};
  ranks.all_reduce(asup::buffer_of(std::span(share)), asup::ReduceOp::average).or_throw();
  return share[0];
}

// needs: loop placement with a stage a rank
double predicted_bubble(Pipeline& pipeline, const std::string& name, int micro_batches) {
  using namespace asup::parallel;
  asup::Communicator& ranks = pipeline.communicator();
  const StageTimes own = pipeline.stats().stages.begin()->second;
  std::array<double, 4> mine{own.forward, own.backward, own.backward_input, own.backward_weight};
  std::vector<double> all(4 * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(asup::buffer_of(std::span(mine)), asup::buffer_of(std::span(all))).or_throw();
  PipelineTimes times;
  for (std::size_t i = 0; i < all.size(); i += 4)
    times.stages.push_back({all[i], all[i + 1], all[i + 2], all[i + 3]});
  const PipelineSpec spec{.ranks = ranks.size(), .micro_batches = micro_batches};
  return price(spec, schedules_of(find_schedule(name), spec), times).bubble();
}

// The embedding is on the first rank, and the head on the last.
std::vector<int> equal_blocks(int layers, int ranks) {
  std::vector<int> stages;
  for (int rank = 0; rank < ranks; ++rank)
    stages.push_back(static_cast<int>(asup::parallel::part_of(layers - 2, rank, ranks).size) +
                     (rank == 0 ? 1 : 0) + (rank + 1 == ranks ? 1 : 0));
  return stages;
}

// A rank that takes `factor` times as long as the others; none: -1.
struct Slow {
  int rank = -1;
  double factor = 1;
};

Slow slow_from(const std::string& text) {
  const std::size_t colon = text.find(':');
  asup::require(colon != std::string::npos, "'{}' should be RANK:FACTOR, like 1:3", text);
  return {std::stoi(text.substr(0, colon)), std::stod(text.substr(colon + 1))};
}

// What each layer takes here, on a micro-batch.
std::vector<asup::parallel::LayerCost> costs_of(const Subject& subject, int micro_batches) {
  std::vector<asup::parallel::LayerCost> costs;
  Tensor x = subject.input.chunk(micro_batches).front();
  for (const asup::parallel::Layer& layer : subject.model->layers()) {
    asup::parallel::StageTimes best{1e9, 1e9, 0, 0};
    Tensor output;
    for (int round = 0; round < 5; ++round) {
      const Tensor input = x.is_floating_point() ? x.detach().requires_grad_() : x;
      const auto begin = asup::Clock::now();
      output = layer.forward(input);
      const auto there = asup::Clock::now();
      output.backward(torch::ones_like(output));
      best.forward = std::min(best.forward, asup::Seconds(there - begin).count());
      best.backward = std::min(best.backward, asup::seconds_since(there));
    }
    best.backward_input = best.backward_weight = best.backward / 2;
    costs.push_back({.name = layer.name, .times = best});
    x = output.detach();
  }
  subject.model->zero_grad();
  return costs;
}

// The first rank's cut.
std::vector<int> fastest_stages(asup::Communicator& ranks, const Subject& subject,
                                const std::string& schedule, int micro_batches, const Slow& slow) {
  using namespace asup::parallel;
  std::vector<std::int32_t> layers(static_cast<std::size_t>(ranks.size()));
  if (ranks.rank() == 0) {
    CutProblem problem{.layers = costs_of(subject, micro_batches),
                       .ranks = std::vector<RankCapacity>(layers.size()),
                       .links = {}};
    problem.ranks.at(static_cast<std::size_t>(slow.rank)).speed = 1 / slow.factor;
    const StageCut cut = cut_stages(problem, find_schedule(schedule),
                                    {.ranks = ranks.size(), .micro_batches = micro_batches});
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = cut.first[i + 1] - cut.first[i];
  }
  ranks.broadcast(asup::buffer_of(std::span(layers))).or_throw();
  return {layers.begin(), layers.end()};
}

void serve_pipeline(const Subject& subject, const std::string& schedule, int micro_batches,
                    const Slow& slow) {
  auto job = asup::Job::join();
  const auto communicator = asup::make_communicator(job);
  asup::parallel::PipelineOptions options{
      .schedule = schedule, .micro_batches = micro_batches, .random = false};
  const int layers = static_cast<int>(subject.model->layers().size());
  options.layers = slow.rank < 0
                       ? equal_blocks(layers, job.size())
                       : fastest_stages(*communicator, subject, schedule, micro_batches, slow);
  if (slow.rank == job.rank())
    options.after_computing = [factor = slow.factor](double seconds) {
      std::this_thread::sleep_for(asup::Seconds(seconds * (factor - 1)));
    };
  Pipeline pipeline(*communicator, subject.model, subject.model->layers(), loss_of, options);
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.01));
  const auto step = [&] {
    optimizer.zero_grad();
    pipeline.step(subject.input, subject.target);
    optimizer.step();
  };
  serve(step, [&] {
    std::cout << measured_bubble(*communicator, pipeline.stats()) << ' '
              << predicted_bubble(pipeline, schedule, micro_batches);
  });
}

// Its updates are within its steps, which do not end.
void serve_stream(int depth, int width, int micro_batches) {
  auto job = asup::Job::join();
  const auto communicator = asup::make_communicator(job);
  const Subject subject = make_subject(depth, width);
  asup::parallel::StreamingPipeline pipeline(*communicator,
                                             [&] {
                                               const auto model = make_subject(depth, width).model;
                                               return asup::parallel::LayeredModel(model,
                                                                                   model->layers());
                                             },
                                             loss_of,
                                             {.micro_batches = micro_batches,
                                              .random = false,
                                              .layers = equal_blocks(depth + 2, job.size())});
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.01));
  serve([&] { pipeline.step(subject.input, subject.target, optimizer); },
        [&] {
          pipeline.settle(optimizer);
          std::cout << measured_bubble(*communicator, pipeline.stats()) << " 0";
        });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::cerr << "usage: bench_pipeline alone|stream|SCHEDULE micro-batches depth width "
                 "[RANK:FACTOR]\n";
    return 2;
  }
  const std::string peer = argv[1];
  const int micro_batches = std::atoi(argv[2]);
  torch::set_num_threads(1);
  const int depth = std::atoi(argv[3]), width = std::atoi(argv[4]);
  if (peer == "alone")
    serve_alone(make_subject(depth, width), micro_batches);
  else if (peer == "stream")
    serve_stream(depth, width, micro_batches);
  else
    serve_pipeline(make_subject(depth, width), peer, micro_batches,
                   argc == 6 ? slow_from(argv[5]) : Slow());
}
