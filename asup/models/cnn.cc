#include "asup/models/cnn.h"

#include "asup/base/error.h"
#include "asup/models/initialise.h"
#include "asup/parallel/pipeline/layers.h"

namespace asup::models {
namespace {

parallel::Conv2d convolution(std::int64_t in, std::int64_t out) {
  return parallel::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
}

class Cnn : public Model {
 public:
  explicit Cnn(const ModelOptions& options) {
    const auto& shape = options.input_shape;
    const std::int64_t width = options.width > 0 ? options.width : 16;
    conv1_ = register_module("conv1", convolution(shape[0], width));
    conv2_ = register_module("conv2", convolution(width, 2 * width));
    conv3_ = register_module("conv3", convolution(2 * width, 4 * width));
    const std::int64_t features = 4 * width * (shape[1] / 4) * (shape[2] / 4);
    hidden_ = register_module("hidden", parallel::Linear(features, 128));
    output_ = register_module("output", parallel::Linear(128, options.classes));
    initialise_plain(*this);
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = conv3_->forward(pooled(conv2_, pooled(conv1_, x))).relu_();
    x = hidden_->forward(x.flatten(1)).relu_();
    return output_->forward(x);
  }

  std::vector<parallel::Layer> layers() override {
    using torch::Tensor;
    return {{"conv1", [this](const Tensor& x) { return pooled(conv1_, x); }, {"conv1"}},
            {"conv2", [this](const Tensor& x) { return pooled(conv2_, x); }, {"conv2"}},
            {"conv3", [this](const Tensor& x) { return conv3_->forward(x).relu_(); }, {"conv3"}},
            {"hidden",
             [this](const Tensor& x) { return hidden_->forward(x.flatten(1)).relu_(); },
             {"hidden"}},
            {"output", [this](const Tensor& x) { return output_->forward(x); }, {"output"}}};
  }

 private:
  // Pooling before ReLU gives the same as after it, on a quarter of the values.
  static torch::Tensor pooled(parallel::Conv2d& convolution, const torch::Tensor& x) {
    return torch::max_pool2d(convolution->forward(x), 2).relu_();
  }

  parallel::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  parallel::Linear hidden_{nullptr}, output_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_cnn(const ModelOptions& options) {
  require(options.input_shape[1] >= 4 && options.input_shape[2] >= 4,
          "cnn needs images of at least 4 x 4 pixels, not {} x {}", options.input_shape[1],
          options.input_shape[2]);
  return std::make_shared<Cnn>(options);
}

}  // namespace asup::models
