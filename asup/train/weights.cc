#include "asup/train/weights.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "asup/base/base64.h"
#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/base/log.h"
#include "asup/base/version.h"
#include "asup/checkpoint/trained.h"
#include "asup/checkpoint/weights_sha256.h"
#include "asup/data/text/tokenizer.h"
#include "asup/report/run_folder.h"
#include "asup/train/checkpoint_info.h"
#include "asup/train/settings.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;
using checkpoint::TensorsByName;

constexpr const char *kSettings = "settings", *kNormalisation = "normalisation",
                     *kTokenizer = "tokenizer", *kSha256 = "weights_sha256";

Weights read_weights_file(const std::string& path) {
  checkpoint::SafetensorsFile file(path);
  Weights weights{path, {}, file.metadata()};
  for (const std::string& name : file.names()) weights.tensors.emplace(name, file.read(name));
  const auto known = weights.metadata.find(kSha256);
  require(known == weights.metadata.end() ||
              known->second == checkpoint::weights_sha256(weights.tensors),
          "{}: is corrupt: its weights are not what was written", path);
  return weights;
}

Weights weights_of_checkpoint(const std::string& path) {
  checkpoint::Folder folder(path);
  return {path, checkpoint::read_model(folder), info_from(folder.index().run, path).model};
}

Weights weights_of_run(const report::RunFolder& folder) {
  if (std::filesystem::exists(folder.model_file())) return read_weights_file(folder.model_file());
  const report::FoundCheckpoint found = checkpoint::newest_whole(folder.series());
  for (const auto& damaged : found.newer) log().warn("{}", damaged.why);
  if (!found.path.empty()) return weights_of_checkpoint(found.path);
  const std::string why = found.newer.empty() ? "" : fmt::format(" ({})", found.newer.back().why);
  throw BadInput(
      fmt::format("{}: has no weights to read yet: neither model.safetensors, which a run leaves "
                  "at its end, nor a whole checkpoint{}",
                  folder.path(), why));
}

// ". They are of model = mlp, width = 16: …": settings of the weights' model that are others here.
std::string differences(const Weights& weights, const TrainConfig& config) {
  const auto theirs = config_of(weights);
  if (!theirs) return "";
  std::vector<std::string> other;
  for (const char* name : {"model", "width", "depth", "stem", "heads", "context"}) {
    const auto text = [&](const TrainConfig& one) { return find_setting(name)->field.text(&one); };
    if (text(*theirs) != text(config)) other.push_back(fmt::format("{} = {}", name, text(*theirs)));
  }
  const auto shape = weights.metadata.find("input_shape");
  const std::string images = shape == weights.metadata.end() ? "" : shape->second;
  if (other.empty()) return images.empty() ? "" : ". They take inputs of " + images;
  return fmt::format(". They are of {}: use these settings, or other weights",
                     fmt::join(other, ", "));
}

// A name of theirs that the module does not have; "" where there is none.
std::string other_name(const TensorsByName& mine, const Weights& weights) {
  for (const auto& [name, tensor] : weights.tensors)
    if (!mine.contains(name)) return name;
  return "";
}

TensorsByName tensors_of(const torch::nn::Module& module) {
  TensorsByName tensors;
  for (const auto& [name, tensor] : sync::parameters_of(module)) tensors.emplace(name, tensor);
  for (const auto& [name, tensor] : sync::buffers_of(module)) tensors.emplace(name, tensor);
  return tensors;
}

// Whether one may be copied into the other: files may be of another precision.
bool fits(const torch::Tensor& theirs, const torch::Tensor& mine) {
  return theirs.sizes() == mine.sizes() && theirs.is_floating_point() == mine.is_floating_point();
}

// Some programs leave out how many batches BatchNorm has seen, which only counts.
bool may_be_missing(const std::string& name) { return name.ends_with("num_batches_tracked"); }

}  // namespace

Metadata describe_model(const TrainConfig& config, const data::Dataset& dataset,
                        const std::string& convolution_path, std::int64_t step) {
  Json settings;
  for (const config::Setting& setting : train::settings())
    if (setting.scope == config::Scope::fixed)
      settings[std::string(setting.name)] = setting.field.text(&config);
  Metadata metadata{
      {"format", "pt"},  // that names and shapes are torch's, which some readers want to know
      {"asup", kVersion},
      {"step", fmt::format("{}", step)},
      {"model", config.model},
      {"data", config.data},
      {"input_shape", fmt::format("{}", fmt::join(dataset.input_shape(), "x"))},
      {"classes", fmt::format("{}", dataset.classes())},
      {"convolution_path", convolution_path},
      {kSettings, settings.dump()}};
  const data::Normalisation normalisation = dataset.normalisation();
  if (!normalisation.mean.empty())
    metadata[kNormalisation] =
        Json{{"mean", normalisation.mean}, {"deviation", normalisation.deviation}}.dump();
  if (const data::Text* text = dataset.text(); text && !text->tokenizer->model().empty())
    metadata[kTokenizer] = to_base64(text->tokenizer->model());
  return metadata;
}

std::optional<TrainConfig> config_of(const Weights& weights) try {
  const auto settings = weights.metadata.find(kSettings);
  if (!weights.metadata.contains("asup") || settings == weights.metadata.end()) return std::nullopt;
  config::Given given;
  const Json json = parse_json<Json>(settings->second);
  for (const auto& [name, text] : json.items()) given.say(name, text.get<std::string>(), name);
  return config_from(std::move(given));
} catch (const nlohmann::json::exception&) {
  throw BadInput(fmt::format("{}: is corrupt: its settings make no sense", weights.path));
} catch (const BadInput& error) {
  throw BadInput(fmt::format("{}: is of another version of asup ({})", weights.path, error.what()));
}

std::optional<data::Normalisation> normalisation_of(const Weights& weights) try {
  const auto text = weights.metadata.find(kNormalisation);
  if (text == weights.metadata.end()) return std::nullopt;
  const Json json = try_json<Json>(text->second);
  return data::Normalisation{json.at("mean").get<std::vector<double>>(),
                             json.at("deviation").get<std::vector<double>>()};
} catch (const nlohmann::json::exception&) {
  throw BadInput(fmt::format("{}: is corrupt: its normalisation makes no sense", weights.path));
}

std::string tokenizer_of(const Metadata& metadata, const std::string& path) {
  const auto found = metadata.find(kTokenizer);
  if (found == metadata.end()) return "";
  const auto model = from_base64(found->second);
  require(model && !model->empty(), "{}: is corrupt: its tokenizer makes no sense", path);
  return *model;
}

Weights copy_weights(const torch::nn::Module& module, Metadata metadata) {
  Weights weights{{}, tensors_of(module), std::move(metadata)};
  for (auto& [name, tensor] : weights.tensors) tensor = tensor.detach().clone();
  return weights;
}

void write_weights(const std::string& path, const Weights& weights) {
  std::vector<sync::NamedTensor> tensors;
  for (const auto& [name, tensor] : weights.tensors) tensors.push_back({name, tensor});
  Metadata metadata = weights.metadata;
  metadata[kSha256] = checkpoint::weights_sha256(weights.tensors);
  write_atomically(path, checkpoint::SafetensorsImage(tensors, metadata).pieces());
}

Weights read_weights(const std::string& run_or_file) {
  require(std::filesystem::exists(run_or_file),
          "{}: there is no such file or folder; give a run's folder, or a file of weights",
          run_or_file);
  if (!std::filesystem::is_directory(run_or_file)) return read_weights_file(run_or_file);
  if (std::filesystem::exists(run_or_file + "/index.json"))
    return weights_of_checkpoint(run_or_file);
  const report::RunFolder folder(run_or_file);
  folder.check_is_run();
  return weights_of_run(folder);
}

std::vector<std::string> load_weights(torch::nn::Module& module, const Weights& weights,
                                      const TrainConfig& config,
                                      const std::set<std::string>& head) {
  const TensorsByName mine = tensors_of(module);
  const std::string other = other_name(mine, weights);
  std::vector<std::string> fresh;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> copies;
  for (const auto& [name, tensor] : mine) {
    const auto found = weights.tensors.find(name);
    if (found == weights.tensors.end() && may_be_missing(name)) continue;
    require(found != weights.tensors.end(), "{}: does not fit model {}: it has no {}{}{}",
            weights.path, config.model, name, other.empty() ? "" : ", but " + other,
            differences(weights, config));
    if (fits(found->second, tensor)) {
      copies.emplace_back(tensor, found->second);
      continue;
    }
    require(head.contains(name), "{}: does not fit model {}: its {} is {}, and the model's {}{}",
            weights.path, config.model, name, asup::describe(found->second), asup::describe(tensor),
            differences(weights, config));
    fresh.push_back(name);
  }
  require(other.empty(), "{}: does not fit model {}, which has no {}{}", weights.path, config.model,
          other, differences(weights, config));
  torch::NoGradGuard no_grad;
  for (auto& [to, from] : copies) to.copy_(from);
  return fresh;
}

}  // namespace asup::train
