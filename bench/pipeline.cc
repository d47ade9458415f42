// One process of bench/pipeline.py: trains a GPT of equal blocks, alone or as a stage of a
// pipeline, as many steps as it is told on standard input, and prints what each took.
//
//   bench_pipeline alone|stream|SCHEDULE micro-batches depth width
//
// Reads "N" lines, answers each with N step times in microseconds on one line; "0" is answered by
// the share of a step in which the ranks stood still, measured, and as the price of the schedule
// predicts it from the measured times of its stages. One thread computes.
#include "asup/parallel/pipeline/pipeline.h"

#include <torch/torch.h>

#include <array>
#include <iostream>
#include <string>

#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/models/model.h"
#include "asup/models/task.h"
#include "asup/net/job.h"
#include "asup/parallel/pipeline/streaming_pipeline.h"
#include "asup/parallel/schedule/cost.h"

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

void serve_pipeline(const Subject& subject, const std::string& schedule, int micro_batches) {
  auto job = asup::Job::join();
  const auto communicator = asup::make_communicator(job);
  Pipeline pipeline(*communicator, subject.model, subject.model->layers(), loss_of,
                    {.schedule = schedule, .micro_batches = micro_batches, .random = false});
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
  asup::parallel::StreamingPipeline pipeline(
      *communicator,
      [&] {
        const auto model = make_subject(depth, width).model;
        return asup::parallel::LayeredModel(model, model->layers());
      },
      loss_of, {.micro_batches = micro_batches, .random = false});
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.01));
  serve([&] { pipeline.step(subject.input, subject.target, optimizer); },
        [&] {
          pipeline.settle(optimizer);
          std::cout << measured_bubble(*communicator, pipeline.stats()) << " 0";
        });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: bench_pipeline alone|stream|SCHEDULE micro-batches depth width\n";
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
    serve_pipeline(make_subject(depth, width), peer, micro_batches);
}
