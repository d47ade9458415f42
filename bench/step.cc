// One process of bench/step.py: trains a model on random data, alone or as a rank of an asup job,
// as many steps as it is told on standard input, and prints what each took.
//
//   bench_step asup|independent resnet18|mlp onednn|native
//
// Reads "N" lines, answers each with N step times in microseconds on one line. One thread computes.
// The optimizer is SGD with momentum.
// With BENCH_KEEP_TENSOR_MEMORY in the environment it calls keep_tensor_memory().
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "asup/asup.h"
#include "asup/models/model.h"

namespace {

using asup::models::Model;

struct Subject {
  std::shared_ptr<Model> model;
  torch::Tensor input, target;
};

// ResNet-18 at 64 x 64, batch 8; an MLP of three 4096 x 4096 matrices (201 MB of gradients),
// batch 32.
Subject make_subject(const std::string& name) {
  torch::manual_seed(1);
  asup::models::ModelOptions options;
  if (name == "resnet18") {
    options.input_shape = {3, 64, 64};
    options.classes = 1000;
    options.stem = asup::models::Stem::imagenet;
    return {asup::models::make_model("resnet18", options), torch::randn({8, 3, 64, 64}),
            torch::randint(1000, {8})};
  }
  options.input_shape = {4096, 1, 1};
  options.classes = 4096;
  options.width = 4096;
  options.depth = 2;
  return {asup::models::make_model("mlp", options), torch::randn({32, 4096, 1, 1}),
          torch::randint(4096, {32})};
}

template <typename Apply>
double time_step(Subject& subject, torch::optim::Optimizer& optimizer, Apply apply) {
  const auto start = asup::Clock::now();
  optimizer.zero_grad();
  auto loss =
      torch::nn::functional::cross_entropy(subject.model->forward(subject.input), subject.target);
  loss.backward();
  apply();
  return asup::seconds_since(start) * 1e6;
}

template <typename Apply>
void serve(Subject& subject, torch::optim::Optimizer& optimizer, Apply apply) {
  std::cout << "ready" << std::endl;
  for (int steps = 0; std::cin >> steps;) {
    for (int i = 0; i < steps; ++i) std::cout << time_step(subject, optimizer, apply) << ' ';
    std::cout << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: bench_step asup|independent resnet18|mlp onednn|native\n";
    return 2;
  }
  const std::string peer = argv[1], path = argv[3];
  torch::set_num_threads(1);
  if (std::getenv("BENCH_KEEP_TENSOR_MEMORY")) asup::keep_tensor_memory();
  at::globalContext().setUserEnabledMkldnn(path == "onednn");
  Subject subject = make_subject(argv[2]);
  torch::optim::SGD optimizer(subject.model->parameters(),
                              torch::optim::SGDOptions(0.001).momentum(0.9));
  if (peer == "asup") {
    auto job = asup::Job::join();
    auto replica = asup::distribute(job, subject.model, optimizer);
    serve(subject, optimizer, [&] { replica->step(); });
  } else {
    serve(subject, optimizer, [&] { optimizer.step(); });
  }
}
