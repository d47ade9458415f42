#include "asup/models/mlp.h"

#include "asup/models/initialise.h"

namespace asup::models {
namespace {

class Mlp : public Model {
 public:
  explicit Mlp(const ModelOptions& options) {
    const std::int64_t width = options.width > 0 ? options.width : 256;
    const std::int64_t depth = options.depth > 0 ? options.depth : 2;
    std::int64_t features = 1;
    for (const std::int64_t size : options.input_shape) features *= size;
    for (std::int64_t i = 0; i < depth; ++i) {
      hidden_->push_back(torch::nn::Linear(features, width));
      features = width;
    }
    output_ = torch::nn::Linear(features, options.classes);
    register_module("hidden", hidden_);
    register_module("output", output_);
    initialise_plain(*this);
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = input.flatten(1);
    for (const auto& layer : *hidden_) x = torch::relu(layer->as<torch::nn::Linear>()->forward(x));
    return output_->forward(x);
  }

 private:
  torch::nn::ModuleList hidden_;
  torch::nn::Linear output_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_mlp(const ModelOptions& options) {
  return std::make_shared<Mlp>(options);
}

}  // namespace asup::models
