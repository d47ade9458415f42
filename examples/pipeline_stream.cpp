// Trains a network on Fashion-MNIST whose layers are spread over all ranks of the job, which do not
// wait for each other's updates: asup run -n 2 -- pipeline_stream
//
//   usage: pipeline_stream [folder of the data set [epochs]]
#include <asup/asup.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "fashion_mnist.h"

using torch::data::make_data_loader, torch::data::samplers::RandomSampler;
using torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::MaxPool2d, torch::nn::ReLU;
using torch::nn::Flatten, torch::nn::Linear, torch::nn::Sequential;

Sequential make_model() {
  torch::manual_seed(1);  // the same first weights on all ranks
  return Sequential(Conv2d(Conv2dOptions(1, 16, 3).padding(1)), ReLU(), MaxPool2d(2),
                    Conv2d(Conv2dOptions(16, 32, 3).padding(1)), ReLU(), MaxPool2d(2), Flatten(),
                    Linear(32 * 7 * 7, 128), ReLU(), Linear(128, 10));
}

torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::nn::functional::cross_entropy(output, target);
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 1;
  auto job = asup::Job::join();

  FashionMnist train(folder, "train"), test(folder, "t10k");
  const std::size_t n = train.size().value();
  auto dataset = train.map(torch::data::transforms::Stack<>());
  auto loader = make_data_loader(dataset, RandomSampler(n),
                                 torch::data::DataLoaderOptions(128).drop_last(true));

  asup::parallel::StreamingPipeline pipeline(job, make_model, loss_of, {.micro_batches = 8});
  torch::optim::SGD optimizer(pipeline.parameters(), torch::optim::SGDOptions(0.03).momentum(0.9));
  if (job.rank() == 0) std::printf("%s\n", pipeline.describe().c_str());

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    int steps = 0;
    for (auto& batch : *loader) {
      pipeline.step(batch.data, batch.target, optimizer);
      ++steps;
    }
    const double loss = pipeline.settle(optimizer);
    const torch::Tensor scores = pipeline.forward(test.images());
    if (!scores.defined()) continue;  // the last stage's rank has them
    const double accuracy =
        scores.argmax(1).eq(test.labels()).to(torch::kFloat64).mean().item<double>();
    std::printf("epoch %d: %d steps, loss %.4f, test accuracy %.4f\n", epoch, steps, loss,
                accuracy);
    std::fflush(stdout);
  }
}
