#include "asup/train/state/evaluate_weights.h"

#include <fmt/ranges.h>

#include "asup/base/error.h"
#include "asup/base/thread.h"
#include "asup/train/state/count_broken.h"
#include "asup/train/state/inputs.h"

namespace asup::train {
namespace {

// What the weights say of themselves, or else `usual`.
std::string said(const Weights& weights, const std::string& key, const std::string& usual) {
  const auto found = weights.metadata.find(key);
  return found == weights.metadata.end() ? usual : found->second;
}

void check_fits(const Weights& weights, const data::Dataset& dataset) {
  const auto shape = fmt::format("{}", fmt::join(dataset.input_shape(), "x"));
  const auto classes = fmt::format("{}", dataset.classes());
  const std::string wanted = said(weights, "input_shape", shape);
  require(wanted == shape, "{}: is of a model for inputs of {}, and {} has {}", weights.path,
          wanted, dataset.name(), shape);
  const std::string known = said(weights, "classes", classes);
  require(known == classes, "{}: is of a model that tells {} classes apart, and {} has {}{}",
          weights.path, known, dataset.name(), classes,
          dataset.text() ? "" : " (--classes says how many a folder in MNIST format has)");
}

// Ranks share the cores; where they are on several hosts, some stay idle.
std::unique_ptr<data::Dataset> open_test_data(const Communicator& communicator,
                                              const Weights& weights, TrainConfig config) {
  if (!config.data_threads) config.data_threads = std::max(1, usable_cores() / communicator.size());
  return open_data(config, data::Split::test, normalisation_of(weights),
                   tokenizer_of(weights.metadata, weights.path));
}

}  // namespace

Evaluation evaluate_weights(Communicator& communicator, const Weights& weights,
                            const TrainConfig& config, const torch::Device& device) {
  const auto test = open_test_data(communicator, weights, config);
  check_fits(weights, *test);
  const auto model = make_model(config, *test);
  load_weights(*model, weights, config);
  model->to(device);
  const auto path = models::convolution_path_from(said(weights, "convolution_path", "onednn"));
  const auto at_once =
      std::max<std::int64_t>(communicator.size(), config.batch / config.accumulate);
  Evaluation evaluation =
      evaluate(communicator, *model, *test, {path, at_once, device, config.test_mirrored});
  evaluation.broken = count_broken(communicator, *test);
  return evaluation;
}

}  // namespace asup::train
