// Trains a network on Fashion-MNIST whose layers are spread over all ranks of the job:
// asup run -n 2 -- pipeline
//
//   usage: pipeline [folder of the data set [epochs [schedule]]]
#include <asup/asup.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "fashion_mnist.h"

using torch::data::make_data_loader, torch::data::samplers::RandomSampler;
using torch::nn::Flatten, torch::nn::MaxPool2d, torch::nn::ReLU, torch::nn::Sequential;
// torch's own layers do as well; with these, gradients of weights can be computed when a rank would
// wait (schedules zb1p and zbv).
using asup::parallel::Conv2d, asup::parallel::Linear;

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 1;
  const std::string schedule = argc > 3 ? argv[3] : "1f1b";
  auto job = asup::Job::join();
  torch::manual_seed(1);  // the same first weights, and the same batches, on all ranks

  FashionMnist train(folder, "train"), test(folder, "t10k");
  const std::size_t n = train.size().value();
  auto dataset = train.map(torch::data::transforms::Stack<>());
  auto loader = make_data_loader(dataset, RandomSampler(n),
                                 torch::data::DataLoaderOptions(128).drop_last(true));

  Sequential model(Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)), ReLU(), MaxPool2d(2),
                   Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)), ReLU(), MaxPool2d(2),
                   Flatten(), Linear(32 * 7 * 7, 128), ReLU(), Linear(128, 10));
  asup::parallel::Pipeline pipeline(job, model, loss_of,
                                    {.schedule = schedule, .micro_batches = 8});
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  if (job.rank() == 0) std::printf("%s\n", pipeline.describe().c_str());

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double sum = 0;
    int steps = 0;
    for (auto& batch : *loader) {
      optimizer.zero_grad();
      sum += pipeline.step(batch.data, batch.target);
      optimizer.step();
      ++steps;
    }
    pipeline.eval();
    const torch::Tensor scores = pipeline.forward(test.images());
    pipeline.train();
    if (!pipeline.has_last_stage()) continue;
    const double accuracy =
        scores.argmax(1).eq(test.labels()).to(torch::kFloat64).mean().item<double>();
    std::printf("epoch %d: %d steps, loss %.4f, test accuracy %.4f\n", epoch, steps, sum / steps,
                accuracy);
    std::fflush(stdout);
  }
}
