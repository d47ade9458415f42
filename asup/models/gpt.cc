#include "asup/models/gpt.h"

#include <cmath>

#include "asup/base/error.h"

namespace asup::models {
namespace {

using torch::Tensor;

constexpr double kDeviation = 0.02;  // of first weights

struct Size {
  std::int64_t width = 0, depth = 0, heads = 0;
  double dropout = 0;
};

std::int64_t usual_heads(std::int64_t width) {
  std::int64_t heads = std::max<std::int64_t>(1, width / 64);
  while (width % heads != 0) --heads;
  return heads;
}

Size size_of(const ModelOptions& options) {
  Size size{.width = options.width > 0 ? options.width : 128,
            .depth = options.depth > 0 ? options.depth : 4,
            .dropout = options.dropout};
  size.heads = options.heads > 0 ? options.heads : usual_heads(size.width);
  require(size.width % size.heads == 0,
          "gpt: heads = {} do not divide width = {}: each head takes an equal part of it. Choose a "
          "width that is a multiple of heads.",
          size.heads, size.width);
  return size;
}

// A linear layer whose weight is input x output.
class Conv1D : public torch::nn::Module {
 public:
  Conv1D(std::int64_t inputs, std::int64_t outputs, double deviation)
      : weight_(
            register_parameter("weight", torch::empty({inputs, outputs}).normal_(0, deviation))),
        bias_(register_parameter("bias", torch::zeros({outputs}))) {}

  Tensor forward(const Tensor& x) const {
    const Tensor y = torch::addmm(bias_, x.flatten(0, -2), weight_);
    return y.view({x.size(0), x.size(1), weight_.size(1)});
  }

 private:
  Tensor weight_, bias_;
};

class Attention : public torch::nn::Module {
 public:
  Attention(const Size& size, double residual_deviation)
      : heads_(size.heads),
        dropout_(size.dropout),
        c_attn_(register_module("c_attn",
                                std::make_shared<Conv1D>(size.width, 3 * size.width, kDeviation))),
        c_proj_(register_module(
            "c_proj", std::make_shared<Conv1D>(size.width, size.width, residual_deviation))) {}

  Tensor forward(const Tensor& x) {
    const auto parts = c_attn_->forward(x).chunk(3, -1);  // queries, keys, values
    const Tensor y = torch::scaled_dot_product_attention(
        by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), /*attn_mask=*/{},
        is_training() ? dropout_ : 0.0, /*is_causal=*/true);
    return c_proj_->forward(y.transpose(1, 2).reshape(x.sizes()));
  }

 private:
  // N x T x width as N x heads x T x width / heads.
  Tensor by_head(const Tensor& x) const {
    return x.unflatten(-1, {heads_, x.size(-1) / heads_}).transpose(1, 2);
  }

  const std::int64_t heads_;
  const double dropout_;
  std::shared_ptr<Conv1D> c_attn_, c_proj_;
};

class Feedforward : public torch::nn::Module {
 public:
  Feedforward(const Size& size, double residual_deviation)
      : c_fc_(register_module("c_fc",
                              std::make_shared<Conv1D>(size.width, 4 * size.width, kDeviation))),
        c_proj_(register_module(
            "c_proj", std::make_shared<Conv1D>(4 * size.width, size.width, residual_deviation))) {}

  Tensor forward(const Tensor& x) {
    return c_proj_->forward(torch::gelu(c_fc_->forward(x), "tanh"));
  }

 private:
  std::shared_ptr<Conv1D> c_fc_, c_proj_;
};

class Block : public torch::nn::Module {
 public:
  explicit Block(const Size& size) : dropout_(size.dropout) {
    // What 2 * depth branches add to the residual stream keeps its size as depth grows.
    const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(size.depth));
    const torch::nn::LayerNormOptions norm({size.width});
    ln_1_ = register_module("ln_1", torch::nn::LayerNorm(norm));
    attn_ = register_module("attn", std::make_shared<Attention>(size, residual));
    ln_2_ = register_module("ln_2", torch::nn::LayerNorm(norm));
    mlp_ = register_module("mlp", std::make_shared<Feedforward>(size, residual));
  }

  Tensor forward(Tensor x) {
    x = x + torch::dropout(attn_->forward(ln_1_->forward(x)), dropout_, is_training());
    return x + torch::dropout(mlp_->forward(ln_2_->forward(x)), dropout_, is_training());
  }

 private:
  const double dropout_;
  torch::nn::LayerNorm ln_1_{nullptr}, ln_2_{nullptr};
  std::shared_ptr<Attention> attn_;
  std::shared_ptr<Feedforward> mlp_;
};

// "transformer", of which all names begin.
class Transformer : public torch::nn::Module {
 public:
  Transformer(const Size& size, std::int64_t vocabulary, std::int64_t context)
      : dropout_(size.dropout) {
    wte_ = register_module("wte", torch::nn::Embedding(vocabulary, size.width));
    wpe_ = register_module("wpe", torch::nn::Embedding(context, size.width));
    for (auto& embedding : {wte_, wpe_}) torch::nn::init::normal_(embedding->weight, 0, kDeviation);
    for (std::int64_t i = 0; i < size.depth; ++i) h_->push_back(std::make_shared<Block>(size));
    register_module("h", h_);
    ln_f_ =
        register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width})));
  }

  Tensor forward(const Tensor& tokens) {
    const Tensor& places = wpe_->weight;
    check(tokens.size(1) <= places.size(0), "gpt knows {} places, and got {} tokens",
          places.size(0), tokens.size(1));
    Tensor x = wte_->forward(tokens) + places.narrow(0, 0, tokens.size(1));
    x = torch::dropout(x, dropout_, is_training());
    for (const auto& block : *h_) x = block->as<Block>()->forward(x);
    return torch::linear(ln_f_->forward(x), wte_->weight);
  }

 private:
  const double dropout_;
  torch::nn::Embedding wte_{nullptr}, wpe_{nullptr};
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_{nullptr};
};

class Gpt : public Model {
 public:
  explicit Gpt(const ModelOptions& options)
      : transformer_(register_module(
            "transformer", std::make_shared<Transformer>(size_of(options), options.classes,
                                                         options.input_shape.front()))) {}

  Tensor forward(Tensor tokens) override { return transformer_->forward(tokens); }
  bool decays_matrices_alone() const override { return true; }

 private:
  std::shared_ptr<Transformer> transformer_;
};

}  // namespace

std::shared_ptr<Model> make_gpt(const ModelOptions& options) {
  return std::make_shared<Gpt>(options);
}

std::int64_t heads_of_gpt(const ModelOptions& options) { return size_of(options).heads; }

}  // namespace asup::models
