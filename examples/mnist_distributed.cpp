// Trains a small network on Fashion-MNIST. `diff mnist_single.cpp mnist_distributed.cpp` shows the
// six lines that make it train on several processes: asup run -n 2 -- mnist_distributed
//
//   usage: PROGRAM [folder of the data set [epochs [batch size of a process]]]
#include <asup/asup.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "fashion_mnist.h"

using torch::data::make_data_loader, torch::data::samplers::RandomSampler;
using torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::Flatten, torch::nn::Linear;
using torch::nn::MaxPool2d, torch::nn::ReLU, torch::nn::Sequential;

double accuracy(Sequential& model, const FashionMnist& test) {
  torch::NoGradGuard no_grad;
  const auto predicted = model->forward(test.images()).argmax(1);
  return predicted.eq(test.labels()).to(torch::kFloat64).mean().item<double>();
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "/usr/share/datasets/fashion-mnist";
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 2;
  const int batch = argc > 3 ? std::atoi(argv[3]) : 64;
  auto job = asup::Job::join();
  torch::manual_seed(1);

  FashionMnist train(folder, "train"), test(folder, "t10k");
  const std::size_t n = train.size().value();
  auto dataset = train.map(torch::data::transforms::Stack<>());
  auto loader = make_data_loader(dataset, asup::Sampler(job, n), batch);

  Sequential model(Conv2d(Conv2dOptions(1, 8, 3).stride(2)), ReLU(),
                   Conv2d(Conv2dOptions(8, 16, 3)), ReLU(), MaxPool2d(2), Flatten(),
                   Linear(16 * 5 * 5, 10));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  auto replica = asup::distribute(job, model, optimizer);

  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double sum = 0;
    int steps = 0;
    for (auto& example : *loader) {
      optimizer.zero_grad();
      auto loss =
          torch::nn::functional::cross_entropy(model->forward(example.data), example.target);
      loss.backward();
      replica->step();
      sum += loss.item<double>();
      ++steps;
    }
    replica->synchronize();
    std::printf("epoch %d: %d steps, loss %.4f, test accuracy %.4f\n", epoch, steps, sum / steps,
                accuracy(model, test));
    std::fflush(stdout);
  }
}
