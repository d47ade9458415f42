#include "asup/models/lstm.h"

#include <ATen/autocast_mode.h>

#include <optional>

#include "asup/kernels/instruction_set.h"
#include "asup/models/compute_path.h"

namespace asup::models {
namespace {

constexpr double kLargest = 0.1;  // of first weights of the embedding

// oneDNN's LSTM, unlike its other operations, wants a processor that has the arithmetic; which of
// them have that of f16 nobody says.
bool takes_onednn() {
  if (!at::autocast::is_autocast_enabled(at::kCPU)) return true;
  return at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16 && kernels::multiplies_bf16();
}

class Lstm : public Model {
 public:
  explicit Lstm(const ModelOptions& options) : dropout_(options.dropout) {
    const std::int64_t width = options.width > 0 ? options.width : 256;
    const std::int64_t depth = options.depth > 0 ? options.depth : 2;
    embedding_ = register_module("embedding", torch::nn::Embedding(options.classes, width));
    torch::nn::init::uniform_(embedding_->weight, -kLargest, kLargest);
    lstm_ = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(width, width)
                                                        .num_layers(depth)
                                                        .dropout(depth > 1 ? dropout_ : 0)
                                                        .batch_first(true)));
    bias_ = register_parameter("bias", torch::zeros({options.classes}));
  }

  torch::Tensor forward(torch::Tensor tokens) override {
    const auto drop = [this](const torch::Tensor& x) {
      return torch::dropout(x, dropout_, is_training());
    };
    std::optional<ConvolutionScope> native;
    if (!takes_onednn()) native.emplace(ConvolutionPath::native, Pass::forward);
    const auto [x, state] = lstm_->forward(drop(embedding_->forward(tokens)));
    return torch::linear(drop(x), embedding_->weight, bias_);
  }

  bool decays_matrices_alone() const override { return true; }

 private:
  const double dropout_;
  torch::nn::Embedding embedding_{nullptr};
  torch::nn::LSTM lstm_{nullptr};
  torch::Tensor bias_;
};

}  // namespace

std::shared_ptr<Model> make_lstm(const ModelOptions& options) {
  return std::make_shared<Lstm>(options);
}

}  // namespace asup::models
