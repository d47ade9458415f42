#include "asup/models/plugin_model.h"

#include <fmt/ranges.h>

#include "asup/base/error.h"
#include "asup/data/load_plugin.h"
#include "asup/models/evaluation_mode.h"

namespace asup::models {
namespace {

using Make = void (*)(const ModelOptions*, std::shared_ptr<Model>*);

// Two samples through it: better now than in every worker.
void check_scores(Model& model, const ModelOptions& options) {
  torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  std::vector<std::int64_t> shape = options.input_shape;
  shape.insert(shape.begin(), 2);
  const torch::Tensor scores =
      model.forward(torch::zeros(shape, options.text ? torch::kInt64 : torch::kFloat32));
  std::vector<std::int64_t> wanted = options.text ? shape : std::vector<std::int64_t>{2};
  wanted.push_back(options.classes);
  require(scores.sizes() == wanted,
          "its model makes [{}] of an input of [{}], where [{}] is wanted: a score for each {}",
          fmt::join(scores.sizes(), ", "), fmt::join(shape, ", "), fmt::join(wanted, ", "),
          options.text ? "token that may follow" : "class");
}

}  // namespace

std::shared_ptr<Model> make_plugin_model(const std::string& path, const ModelOptions& options) {
  const auto make = reinterpret_cast<Make>(data::find_in_plugin(path, "model"));
  std::shared_ptr<Model> model;
  data::run_plugin(path, [&] {
    make(&options, &model);
    require(model != nullptr, "made no model");
    check_scores(*model, options);
  });
  return model;
}

}  // namespace asup::models
