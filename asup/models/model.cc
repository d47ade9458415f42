#include "asup/models/model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "asup/base/error.h"
#include "asup/base/suggest.h"
#include "asup/data/load_plugin.h"
#include "asup/models/cnn.h"
#include "asup/models/gpt.h"
#include "asup/models/lstm.h"
#include "asup/models/mlp.h"
#include "asup/models/plugin_model.h"
#include "asup/models/resnet.h"
#include "asup/parallel/tensor/tensor_group.h"

namespace asup::models {
namespace {

constexpr ModelInfo kModels[] = {
    {.name = "mlp",
     .description =
         "fully connected layers with ReLU (2 hidden layers of 256, or --depth of --width)",
     .width = true,
     .depth = true},
    {.name = "cnn",
     .description = "three convolutions and a hidden layer, for small images; quick on a CPU",
     .width = true},
    {.name = "resnet18",
     .description = "ResNet-18, 11.7 million parameters",
     .stem = true,
     .batch_norm = true},
    {.name = "resnet34",
     .description = "ResNet-34, 21.8 million parameters",
     .stem = true,
     .batch_norm = true},
    {.name = "resnet50",
     .description = "ResNet-50, 25.6 million parameters",
     .stem = true,
     .batch_norm = true},
    {.name = "gpt",
     .description = "GPT-2 for text, of any size (--depth, --width, --heads, --context)",
     .width = true,
     .depth = true,
     .heads = true,
     .dropout = true,
     .text = true},
    {.name = "lstm",
     .description = "recurrent network for text (2 layers of 256, or --depth of --width)",
     .width = true,
     .depth = true,
     .dropout = true,
     .text = true},
};

using Maker = std::shared_ptr<Model> (*)(const ModelOptions&, const MakeNorm&);

template <std::shared_ptr<Model> (*make)(const ModelOptions&)>
std::shared_ptr<Model> without_norms(const ModelOptions& options, const MakeNorm&) {
  return make(options);
}

// In the order of kModels.
constexpr Maker kMakers[] = {
    without_norms<make_mlp>, without_norms<make_cnn>, make_resnet18,           make_resnet34,
    make_resnet50,           without_norms<make_gpt>, without_norms<make_lstm>};

static_assert(std::size(kModels) == std::size(kMakers));

std::size_t find(const std::string& name) {
  std::vector<std::string> known;
  for (const ModelInfo& info : kModels) known.emplace_back(info.name);
  const auto found = std::find(known.begin(), known.end(), name);
  require(found != known.end(), "there is no model '{}', only {}{}", name, fmt::join(known, ", "),
          did_you_mean(name, known));
  return static_cast<std::size_t>(found - known.begin());
}

void require_sense(const ModelOptions& options) {
  const auto& shape = options.input_shape;
  require(!shape.empty() &&
              std::all_of(shape.begin(), shape.end(), [](std::int64_t n) { return n >= 1; }),
          "a model's input needs a shape of positive sizes, not [{}]", fmt::join(shape, ", "));
  require(options.classes >= 1, "a model needs at least 1 class, not {}", options.classes);
  require(options.width >= 0 && options.depth >= 0,
          "a model's width ({}) and depth ({}) cannot be negative", options.width, options.depth);
}

}  // namespace

std::span<const ModelInfo> models() { return kModels; }

void require_parts(const std::string& name, const ModelOptions& options, int ranks) {
  if (name == "mlp") return require_parts_of_mlp(options, ranks);
  if (name == "gpt") return require_parts_of_gpt(options, ranks);
  throw BadInput(
      fmt::format("{} has no layers that could be cut over tensor = {} ranks: only mlp and gpt "
                  "have. Leave tensor out, or train one of these.",
                  name, ranks));
}

std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options,
                                  const MakeNorm& make_norm) {
  if (data::is_plugin(name)) {
    require_sense(options);
    if (options.tensor) require_parts(name, options, options.tensor->size());
    return make_plugin_model(name, options);
  }
  const std::size_t index = find(name);
  require_sense(options);
  if (options.tensor) require_parts(name, options, options.tensor->size());
  require(kModels[index].text == options.text, "{} is a model of {}, and the data is {}", name,
          kModels[index].text ? "text" : "images", options.text ? "text" : "images");
  require(name == "mlp" || options.text || options.input_shape.size() == 3,
          "{} takes images of channels x height x width, not an input of shape [{}]", name,
          fmt::join(options.input_shape, ", "));
  return kMakers[index](
      options, make_norm ? make_norm : [](std::int64_t channels) {
        return torch::nn::AnyModule(torch::nn::BatchNorm2d(channels));
      });
}

}  // namespace asup::models
