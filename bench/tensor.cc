// Times steps of a model that ranks compute together, each with a part of its layers, beside those
// of one rank that computes it alone. Each rank is a process with one thread.
//
//   asup run -n 2 -- bench_tensor [--quick] [--json FILE] [mlp:BATCH:WIDTH | gpt:BATCH:WIDTH]...
//
// By turns: rank 0 computes alone while the others sleep, and then all together. Losses are
// compared before anything is timed.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>

#include "asup/base/error.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/models/model.h"
#include "asup/models/task.h"
#include "asup/net/job.h"
#include "asup/parallel/tensor/tensor_group.h"

namespace asup {
namespace {

using parallel::TensorGroup;
using torch::Tensor;

constexpr std::uint64_t kSeed = 1;

struct Case {
  std::string model;
  std::int64_t batch = 0;
  models::ModelOptions options{};
};

// An MLP of three matrices, width × width; a GPT of 4 blocks with windows of 128 bytes.
Case case_of(const std::string& model, std::int64_t batch, std::int64_t width) {
  if (model == "gpt")
    return {model,
            batch,
            {.input_shape = {128}, .classes = 256, .width = width, .depth = 4, .text = true}};
  return {model,
          batch,
          {.input_shape = {width}, .classes = static_cast<int>(width), .width = width, .depth = 2}};
}

// "mlp:32:4096".
Case case_from(const std::string& text) {
  std::array<std::string, 3> words;
  std::istringstream stream(text);
  for (std::string& word : words) std::getline(stream, word, ':');
  require((words[0] == "mlp" || words[0] == "gpt") && !words[2].empty(),
          "'{}' is no case: write mlp:BATCH:WIDTH or gpt:BATCH:WIDTH", text);
  return case_of(words[0], std::stoll(words[1]), std::stoll(words[2]));
}

// A model in training: alone, or this rank's part of it.
class Training {
 public:
  Training(const Case& of, const TensorGroup* group) : batch_(of.batch) {
    torch::manual_seed(kSeed);
    models::ModelOptions options = of.options;
    options.tensor = group;
    model_ = models::make_model(of.model, options);
    optimizer_.emplace(model_->parameters(), torch::optim::SGDOptions(0.001));
    torch::manual_seed(kSeed + 1);
    if (of.options.text) {
      const Tensor text = torch::randint(
          of.options.classes, {batch_, of.options.input_shape.front() + 1}, torch::kLong);
      input_ = text.narrow(1, 0, text.size(1) - 1).contiguous();
      target_ = text.narrow(1, 1, text.size(1) - 1).contiguous();
    } else {
      input_ = torch::randn({batch_, of.options.input_shape.front()});
      target_ = torch::randint(of.options.classes, {batch_}, torch::kLong);
    }
  }

  // The loss before it.
  double step() {
    optimizer_->zero_grad();
    const Tensor loss =
        models::sum_of_losses(model_->forward_part(input_), target_, 0, model_->cut_scores()) /
        static_cast<double>(batch_);
    loss.backward();
    optimizer_->step();
    return loss.item<double>();
  }

  double timed_step() {
    const auto start = Clock::now();
    step();
    return seconds_since(start);
  }

 private:
  const std::int64_t batch_;
  std::shared_ptr<models::Model> model_;
  std::optional<torch::optim::SGD> optimizer_;
  Tensor input_, target_;
};

struct Times {
  std::vector<double> alone, together;  // seconds of steps
};

// Rank 0 computes alone while the others sleep, and then all together, by turns.
class Turns {
 public:
  Turns(Communicator& control, const Case& of, const TensorGroup& group)
      : control_(control), together_(of, &group) {
    if (control.rank() == 0) alone_.emplace(of, nullptr);
  }

  // Steps learn the same, before any is timed.
  void check_results() {
    for (int step = 0; step < 2; ++step) {
      const double loss = together_.step();
      if (!alone_) continue;
      const double right = alone_->step();
      check(std::abs(loss - right) <= 1e-4 * std::abs(right),
            "step {} of {} ranks has a loss of {}, and that of one {}", step, control_.size(), loss,
            right);
    }
  }

  Times times(int turns) {
    std::array<std::int32_t, 1> steps{1};
    if (alone_)  // about a second a turn
      steps[0] = static_cast<std::int32_t>(std::clamp(1 / alone_->timed_step(), 1.0, 20.0));
    control_.broadcast(buffer_of(std::span(steps))).or_throw();
    Times times;
    for (int turn = 0; turn < turns; ++turn) {
      for (int i = 0; alone_ && i < steps[0]; ++i) times.alone.push_back(alone_->timed_step());
      control_.barrier().or_throw();
      for (int i = 0; i < steps[0]; ++i) times.together.push_back(together_.timed_step());
      control_.barrier().or_throw();
    }
    std::ranges::sort(times.alone);
    std::ranges::sort(times.together);
    return times;
  }

 private:
  Communicator& control_;
  std::optional<Training> alone_;  // on rank 0
  Training together_;
};

double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

nlohmann::json row_of(const Case& of, int ranks, const Times& times) {
  const double alone = median(times.alone), together = median(times.together);
  return {{"model", of.model},
          {"width", of.options.width},
          {"batch", of.batch},
          {"ranks", ranks},
          {"alone_p50_us", alone * 1e6},
          {"p50_us", together * 1e6},
          {"min_us", times.together.front() * 1e6},
          {"alone_min_us", times.alone.front() * 1e6},
          {"ratio", alone / together}};
}

void print_row(const nlohmann::json& row) {
  const auto milliseconds = [&](const char* name) { return row.at(name).get<double>() / 1e3; };
  fmt::print("{:<6}{:>8}{:>8}{:>8}{:>12.1f}{:>13.1f}{:>9.2f}x\n",
             row.at("model").get<std::string>(), row.at("width").get<int>(),
             row.at("batch").get<int>(), row.at("ranks").get<int>(), milliseconds("alone_p50_us"),
             milliseconds("p50_us"), row.at("ratio").get<double>());
  std::fflush(stdout);
}

struct Options {
  std::vector<Case> cases;
  std::string json;
  bool quick = false;
};

Options options_from(std::span<char*> words) {
  Options options;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--quick") {
      options.quick = true;
    } else if (word == "--json") {
      require(i + 1 < words.size(), "--json: name the file");
      options.json = words[++i];
    } else {
      options.cases.push_back(case_from(word));
    }
  }
  if (options.cases.empty())
    for (const char* usual : {"mlp:32:4096", "mlp:128:4096", "mlp:256:4096", "gpt:8:512"})
      options.cases.push_back(case_from(usual));
  return options;
}

void take_part(const Options& options) {
  Job job = Job::join();
  require(job.size() > 1, "start several ranks of it: asup run -n 2 -- bench_tensor");
  for (const Case& each : options.cases)
    models::require_parts(each.model, each.options, job.size());
  torch::set_num_threads(1);
  const auto control = make_communicator(job);
  const parallel::TensorGroup group(make_communicator(job));
  const bool tells = job.rank() == 0;
  auto rows = nlohmann::json::array();
  if (tells)
    fmt::print("{:<6}{:>8}{:>8}{:>8}{:>12}{:>13}{:>10}\n", "model", "width", "batch", "ranks",
               "alone ms", "together ms", "speed-up");
  for (const Case& each : options.cases) {
    Turns turns(*control, each, group);
    turns.check_results();
    const Times times = turns.times(options.quick ? 3 : 9);
    if (!tells) continue;
    rows.push_back(row_of(each, job.size(), times));
    print_row(rows.back());
  }
  if (!tells || options.json.empty()) return;
  std::ofstream file(options.json);
  file << rows.dump(2) << "\n";
  require(file.good(), "cannot write {}", options.json);
}

}  // namespace
}  // namespace asup

int main(int argc, char** argv) try {
  asup::take_part(asup::options_from({argv, static_cast<std::size_t>(argc)}));
} catch (const asup::BadInput& error) {
  std::cerr << "bench_tensor: " << error.what() << "\n";
  return 2;
}
