// A model whose scores are NaN in some of the batches that it is trained on: those that $SPOILED
// counts from 1, "3,5", or all from one on, "3-", on the worker $SPOILED_RANK, or on all. Its
// statistics are spoilt with them.
#include <cstdlib>
#include <limits>
#include <string>

#include "asup/models/plugin.h"

namespace {

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

bool is_spoiled(int batch) {
  const std::string batches = "," + variable("SPOILED") + ",", rank = variable("SPOILED_RANK");
  if (!rank.empty() && rank != variable("ASUP_RANK")) return false;
  if (batches.ends_with("-,")) return batch >= std::stoi(batches.substr(1));
  return batches.find("," + std::to_string(batch) + ",") != batches.npos;
}

class Spoils : public asup::models::Model {
 public:
  explicit Spoils(const asup::models::ModelOptions& options)
      : norm_(register_module("norm", torch::nn::BatchNorm1d(size_of(options)))),
        out_(register_module("out", torch::nn::Linear(size_of(options), options.classes))) {}

  torch::Tensor forward(torch::Tensor input) override {
    input = input.flatten(1);
    if (is_training() && is_spoiled(++batches_))
      input = input * std::numeric_limits<float>::quiet_NaN();
    return out_->forward(norm_->forward(input));
  }

 private:
  static std::int64_t size_of(const asup::models::ModelOptions& options) {
    std::int64_t size = 1;
    for (const std::int64_t each : options.input_shape) size *= each;
    return size;
  }

  int batches_ = 0;
  torch::nn::BatchNorm1d norm_;
  torch::nn::Linear out_;
};

std::shared_ptr<asup::models::Model> make(const asup::models::ModelOptions& options) {
  return std::make_shared<Spoils>(options);
}

}  // namespace

ASUP_MODEL(make);
