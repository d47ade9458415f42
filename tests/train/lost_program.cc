// A program that trains a line, tests and saves every fifth step, and one of whose workers dies.
//
//   lost_program FOLDER STEPS RANK WHEN STEP
//
// RANK dies at STEP: before it, or is `stopped` there; `in-test` in the test after it, `in-save` in
// place of the checkpoint that is due then, or `in-write` while the files of it are written.
#include <asup/asup.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int, char** argv) {
  const std::string folder = argv[1], when = argv[4];
  const std::int64_t steps = std::atoll(argv[2]), last = std::atoll(argv[5]);
  auto job = asup::Job::join();
  torch::manual_seed(job.rank());
  torch::nn::Linear model(3, 2);
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));

  asup::Checkpoint checkpoint(job, folder, {.keep = 0});
  auto replica = checkpoint.distribute(model, optimizer);
  asup::TrainingProgress progress = checkpoint.progress();
  const auto die = [&](const char* moment, std::int64_t step) {
    if (job.rank() != std::atoi(argv[3]) || when != moment || step != last) return;
    if (when != "in-write") checkpoint.wait();
    raise(when == "stopped" ? SIGSTOP : SIGKILL);
  };
  std::printf("begins at %ld\n", static_cast<long>(progress.step));
  while (progress.step < steps) {
    die("before", progress.step + 1);
    die("stopped", progress.step + 1);
    optimizer.zero_grad();
    model->forward(torch::randn({4, 3})).square().mean().backward();
    replica->step();
    progress.advance(12, 240);
    if (progress.step % 5 != 0) continue;
    replica->with_mean_model([&] {
      die("in-test", progress.step);
      asup::reduce_metrics(*replica, {{"workers", 1}});
    });
    die("in-save", progress.step);
    checkpoint.save(progress);
    die("in-write", progress.step);
  }
  replica->synchronize();
  const auto sums = asup::reduce_metrics(*replica, {{"workers", 1}});
  checkpoint.wait();
  std::printf("ends at %ld with %g workers, weight %.9g\n", static_cast<long>(progress.step),
              sums.at("workers"), model->weight.view(-1)[0].item<double>());
}
