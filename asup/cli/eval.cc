// asup eval: how good a trained model is on test data.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/cli/command.h"
#include "asup/cli/usage.h"
#include "asup/collective/mesh/mesh_communicator.h"
#include "asup/net/job.h"
#include "asup/report/format.h"
#include "asup/report/records.h"
#include "asup/train/device.h"
#include "asup/train/state/evaluate_weights.h"

namespace asup::cli {
namespace {

using train::TrainConfig;

const std::vector<Example> kExamples{
    {"asup eval runs/mine", "on the test set of the data it was trained on"},
    {"asup eval runs/mine --data other --json marks.json", "on the test set in another folder"},
    {"asup eval runs/gpt --data text:book.txt", "perplexity at the end of another text"},
    {"asup eval resnet.safetensors --model resnet50 --data DIR"},
    {"asup eval runs/mine/checkpoints/best", "of one checkpoint (asup train --keep-best)"},
    {"asup run -n 4 -- asup eval runs/mine", "by four processes"}};

constexpr const char* kFooter = R"(
Of a run that has not come to its end, the newest whole checkpoint is taken. Pixels are normalised
as those that the model was trained on.)";

struct EvalFlags {
  std::string from, data, model, json, device = "auto";
  std::int64_t classes = 0;
  std::optional<bool> mirrored;  // none: as in training
};

// What the weights were trained by, and what was said over it.
TrainConfig config_for(const EvalFlags& flags, const train::Weights& weights) {
  const auto known = train::config_of(weights);
  require(known || (!flags.model.empty() && !flags.data.empty()),
          "{}: does not say what it is of: give --model and --data", weights.path);
  TrainConfig config = known.value_or(TrainConfig());
  if (!flags.model.empty()) config.model = flags.model;
  if (!flags.data.empty()) config.data = flags.data;
  if (flags.classes > 0) config.classes = flags.classes;
  config.test_mirrored = flags.mirrored.value_or(config.test_mirrored);
  return config;
}

nlohmann::ordered_json to_json(const train::Evaluation& evaluation, const train::Weights& weights,
                               const TrainConfig& config) {
  nlohmann::ordered_json json{{"weights", weights.path},
                              {"model", config.model},
                              {"data", config.data},
                              {"test_samples", evaluation.samples},
                              {"broken_samples", evaluation.broken}};
  report::put_figures(json, {.loss = evaluation.loss,
                             .accuracy = evaluation.accuracy,
                             .perplexity = evaluation.perplexity,
                             .bits_per_byte = evaluation.bits_per_byte,
                             .top5 = evaluation.top5});
  return json;
}

void print(const train::Evaluation& evaluation) {
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("  {:<15}  {}\n", name, value);
  };
  if (evaluation.perplexity) line("test perplexity", fmt::format("{:.4f}", *evaluation.perplexity));
  if (evaluation.bits_per_byte)
    line("bits per byte", fmt::format("{:.4f}", *evaluation.bits_per_byte));
  line("test accuracy", report::percent(evaluation.accuracy, 2));
  if (evaluation.top5) line("test top-5", report::percent(*evaluation.top5, 2));
  line("test loss", fmt::format("{:.4f}", evaluation.loss));
  line("samples", report::grouped(evaluation.samples));
  if (evaluation.broken > 0)
    line("broken", fmt::format("{} that could not be read; others took their places",
                               report::counted(evaluation.broken, "image")));
}

int evaluate_model(const EvalFlags& flags) {
  const train::Weights weights = train::read_weights(flags.from);
  const TrainConfig config = config_for(flags, weights);
  train::check_device(flags.device);
  Job job = Job::join();
  const auto communicator = make_communicator(job);
  const torch::Device device = train::choose_device(flags.device, train::place_on_host(job));
  train::set_arithmetic(config);
  const train::Evaluation evaluation = train::explain_lack_of_memory(
      [&] { return train::evaluate_weights(*communicator, weights, config, device); });
  if (job.rank() != 0) return 0;
  fmt::print("{}: {} on {}\n", weights.path, config.model, config.data);
  print(evaluation);
  if (!flags.json.empty())
    write_atomically(flags.json, to_json(evaluation, weights, config).dump(1) + "\n");
  return 0;
}

}  // namespace

Command add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Test a trained model");
  set_usage(*command, "Usage: asup eval RUN|FILE [--data D] [flags]");
  command->footer(kFooter);
  auto flags = std::make_shared<EvalFlags>();
  command->add_option("from", flags->from, "Run folder, or a file of safetensors")->required();
  command->add_option("--data", flags->data, "Name or folder; default: what it was trained on")
      ->type_name("D");
  command
      ->add_option("--classes", flags->classes,
                   "Of a folder in MNIST format, whose files do not say (default: as in training)")
      ->type_name("N")
      ->check(between<std::int64_t>(1, 65536));
  command
      ->add_option("--device", flags->device, "cpu, cuda, cuda:N, or auto: cuda where there is one")
      ->type_name("D");
  command->add_option("--model", flags->model, "Where the file does not say it")->type_name("M");
  command->add_flag("--test-mirrored,!--no-test-mirrored", flags->mirrored,
                    "The mean of the scores of an image and of its mirror image, or not (default: "
                    "as in training)");
  command->add_option("--json", flags->json, "Write the figures to this file, too")
      ->type_name("FILE");
  return {command, [flags] { return evaluate_model(*flags); }, {}, kExamples};
}

}  // namespace asup::cli
