// asup::asup: a job of one process goes down the slope of a least-squares problem.
#include <asup/asup.h>

#include <cstdio>

int main() {
  auto job = asup::Job::join();
  torch::manual_seed(1);
  const auto inputs = torch::randn({64, 4});
  const auto targets = inputs.matmul(torch::tensor({1.0F, -2.0F, 3.0F, -4.0F})).unsqueeze(1);

  torch::nn::Linear model(4, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  auto replica = asup::distribute(job, model, optimizer);

  double loss = 0;
  for (int step = 0; step < 100; ++step) {
    optimizer.zero_grad();
    auto error = torch::mse_loss(model->forward(inputs), targets);
    error.backward();
    replica->step();
    loss = error.item<double>();
  }
  std::printf("rank %d of %d: loss %g\n", job.rank(), job.size(), loss);
  return loss < 1e-3 ? 0 : 1;
}
