// A training loop with what loops come to have: gradient accumulation, clipping, a schedule, a
// test, checkpoints. docs/your_own_loop.md goes through it.
//
//   asup run -n 2 -- your_own_loop FOLDER [epochs [batch of a process [data set's folder]]]
//
// Run again with the same folder, it goes on where it stood; also with another number of processes.
#include <asup/asup.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "fashion_mnist.h"

using torch::data::make_data_loader;
using torch::data::transforms::Stack;
using torch::nn::Conv2d, torch::nn::Conv2dOptions, torch::nn::Flatten, torch::nn::Linear;
using torch::nn::MaxPool2d, torch::nn::ReLU, torch::nn::Sequential;

// Of the whole test set: each process tests its part of it, and parts need not be equal.
double accuracy(asup::Job& job, asup::DistributedReplica& replica, Sequential& model,
                FashionMnist& test) {
  double right = 0, count = 0;
  const std::size_t size = test.size().value();
  auto loader = make_data_loader(test.map(Stack<>()), asup::EvalSampler(job, size), 500);
  replica.with_mean_model([&] {  // where models differ between steps: of their mean
    torch::NoGradGuard no_grad;
    model->eval();
    for (auto& batch : *loader) {
      right += model->forward(batch.data).argmax(1).eq(batch.target).sum().item<double>();
      count += static_cast<double>(batch.target.size(0));
    }
    model->train();
  });
  const auto all = asup::reduce_metrics(replica, {{"right", right}, {"count", count}});
  return all.at("right") / all.at("count");
}

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "runs/your_own_loop";
  const std::uint64_t epochs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2;
  const int batch = argc > 3 ? std::atoi(argv[3]) : 32;
  const std::string data = argc > 4 ? argv[4] : "/usr/share/datasets/fashion-mnist";
  constexpr int kAccumulate = 2, kSaveEvery = 50;
  asup::keep_tensor_memory();
  auto job = asup::Job::join();
  torch::manual_seed(1);

  Sequential model(Conv2d(Conv2dOptions(1, 8, 3).stride(2)), ReLU(),
                   Conv2d(Conv2dOptions(8, 16, 3)), ReLU(), MaxPool2d(2), Flatten(),
                   Linear(16 * 5 * 5, 10));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/1, /*gamma=*/0.5);  // once an epoch

  asup::Checkpoint checkpoint(job, folder);
  auto replica = checkpoint.distribute(model, optimizer);  // from where it stood, or anew
  asup::TrainingProgress progress = checkpoint.progress();
  for (std::uint64_t epoch = 0; epoch < progress.epoch; ++epoch) schedule.step();
  if (checkpoint.resumed() && job.rank() == 0)
    std::printf("goes on after step %ld\n", static_cast<long>(progress.step));

  FashionMnist train(data, "train"), test(data, "t10k");
  const std::size_t size = train.size().value();
  const asup::Sampler sampler(job, size, {.epoch = progress.epoch, .position = progress.position});
  auto loader = make_data_loader(train.map(Stack<>()), sampler, batch * kAccumulate);

  while (progress.epoch < epochs) {
    const std::uint64_t epoch = progress.epoch;
    double loss_sum = 0;
    std::int64_t steps = 0;
    for (auto& example : *loader) {
      optimizer.zero_grad();
      const auto parts = example.data.chunk(kAccumulate),
                 labels = example.target.chunk(kAccumulate);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        std::optional<asup::NoSync> only_adds_up;  // all but the last backward of a step
        if (i + 1 < parts.size()) only_adds_up.emplace(*replica);
        auto loss = torch::nn::functional::cross_entropy(model->forward(parts[i]), labels[i]) /
                    static_cast<double>(parts.size());
        loss.backward();
        loss_sum += loss.item<double>();
      }
      replica->clip_grad_norm(1.0);
      replica->step();
      ++steps;
      progress.advance(static_cast<std::uint64_t>(job.size() * batch * kAccumulate), size);
      if (progress.step % kSaveEvery == 0) checkpoint.save(progress);
    }
    schedule.step();
    const double right = accuracy(job, *replica, model, test);
    if (job.rank() == 0)
      std::printf("epoch %d: loss %.4f, test accuracy %.4f\n", static_cast<int>(epoch) + 1,
                  loss_sum / static_cast<double>(steps), right);
  }
  replica->synchronize();
  checkpoint.save(progress);
  if (job.rank() == 0) torch::save(model, folder + "/model.pt");
}
