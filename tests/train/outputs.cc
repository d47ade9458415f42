// outputs WEIGHTS INPUT OUT: what the model of a file of weights makes of the tensor "input" of one
// safetensors file, as "output" of another.
#include <cstdio>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/checkpoint/safetensors.h"
#include "asup/models/model.h"
#include "asup/train/weights.h"

namespace asup {
namespace {

std::shared_ptr<models::Model> model_of(const train::Weights& weights, const torch::Tensor& input) {
  const auto config = train::config_of(weights);
  check(config.has_value(), "{}: is not asup's", weights.path);
  models::ModelOptions options;
  options.input_shape = input.sizes().slice(1).vec();
  options.classes = std::stoi(weights.metadata.at("classes"));
  options.text = input.scalar_type() == torch::kInt64;
  options.width = config->width.value_or(0);
  options.depth = config->depth.value_or(0);
  options.heads = config->heads.value_or(0);
  options.stem = config->stem == "imagenet" ? models::Stem::imagenet : models::Stem::small;
  auto model = models::make_model(config->model, options);
  train::load_weights(*model, weights, *config);
  model->eval();
  return model;
}

void write_outputs(const char* from, const char* input_file, const char* out) {
  torch::NoGradGuard no_grad;
  const train::Weights weights = train::read_weights(from);
  const torch::Tensor input = checkpoint::SafetensorsFile(input_file).read("input");
  const sync::NamedTensor output{"output", model_of(weights, input)->forward(input)};
  write_atomically(out, checkpoint::SafetensorsImage(std::span(&output, 1)).pieces());
}

}  // namespace
}  // namespace asup

int main(int argc, char** argv) try {
  if (argc != 4) return 2;
  asup::write_outputs(argv[1], argv[2], argv[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "outputs: %s\n", error.what());
  return 1;
}
