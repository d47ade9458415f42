#include "asup/bench/faults/program.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "asup/base/files.h"
#include "asup/bench/step_times.h"
#include "asup/distribute/checkpoint.h"
#include "asup/distribute/distribute.h"

namespace asup::bench {
namespace {

constexpr double kRate = 1.0 / 1024;
constexpr std::int64_t kSaveEvery = 50;
constexpr Seconds kBatch{0.003};

// Of a rank, in a step. Two steps go there and back, so that weights stay small and exact.
double gradient_of(int rank, std::int64_t step) {
  const double size = static_cast<double>(1 << rank) * static_cast<double>(1 + step / 2 % 7);
  return step % 2 == 0 ? size : -size;
}

// Whether this is the average of some workers, this one among them.
bool is_average(double average, int rank, int workers, std::int64_t step) {
  for (unsigned set = 1; set < 1u << workers; ++set) {
    if (!(set >> rank & 1)) continue;
    const double sum = gradient_of(0, step) * set;
    if (std::abs(average - sum / std::popcount(set)) < 0.01) return true;
  }
  return false;
}

double mean_of(const torch::nn::Module& model) {
  double sum = 0;
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    sum += parameter.detach().to(torch::kFloat64).sum().item<double>();
    count += parameter.numel();
  }
  return sum / static_cast<double>(count);
}

}  // namespace

int run_faulty_program(const std::string& folder, std::int64_t steps) {
  const auto environment = net::process_environment();
  const bool is_exact = environment("ASUP_SYNC").value_or("allreduce") == "allreduce";
  auto job = Job::join();
  StepTimes times(environment("ASUP_STEP_TIMES").value_or(""));
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(64, 64), torch::nn::Linear(64, 10));
  for (torch::Tensor& parameter : model->parameters()) parameter.data().zero_();
  torch::optim::SGD optimizer(model->parameters(), kRate);
  const int rank = job.rank(), workers = job.size();
  Checkpoint checkpoint(job, folder + "/checkpoints");
  auto replica = checkpoint.distribute(model, optimizer);
  bool wrong = false;
  TrainingProgress progress = checkpoint.progress();
  while (progress.step < steps) {
    times.batch_begins(static_cast<double>(progress.step) / static_cast<double>(steps));
    const double before = mean_of(*model);
    optimizer.zero_grad();
    torch::Tensor loss = torch::zeros({});
    for (torch::Tensor& parameter : model->parameters())
      loss = loss + parameter.sum() * gradient_of(rank, progress.step);
    std::this_thread::sleep_for(kBatch);
    loss.backward();
    replica->step();
    const double moved = (before - mean_of(*model)) / kRate;
    wrong = wrong || (is_exact && !is_average(moved, rank, workers, progress.step));
    progress.advance(1, static_cast<std::uint64_t>(steps));
    if (progress.step % kSaveEvery == 0) checkpoint.save(progress);
  }
  replica->synchronize();
  checkpoint.wait();
  write_atomically(
      fmt::format("{}/{}.json", folder, getpid()),
      nlohmann::json{{"mean", mean_of(*model)}, {"steps", progress.step}, {"wrong", wrong}}.dump());
  return 0;
}

ProgramEnds read_program_ends(const std::string& folder, std::int64_t steps) {
  ProgramEnds ends;
  std::set<double> means;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto end = nlohmann::json::parse(read_file(entry.path().string()));
    ++ends.workers;
    means.insert(end.at("mean").get<double>());
    ends.wrong = ends.wrong || end.at("wrong").get<bool>();
    ends.all_steps = ends.all_steps && end.at("steps").get<std::int64_t>() == steps;
  }
  ends.one_model = means.size() <= 1;
  return ends;
}

}  // namespace asup::bench
