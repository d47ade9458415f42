#include "asup/models/gpt.h"

#include <cmath>

#include "asup/base/error.h"
#include "asup/parallel/pipeline/layers.h"
#include "asup/parallel/tensor/embedding.h"
#include "asup/parallel/tensor/linear.h"
#include "asup/parallel/tensor/region_random.h"
#include "asup/parallel/tensor/regions.h"

namespace asup::models {
namespace {

using parallel::TensorGroup;
using torch::Tensor;
using torch::nn::AnyModule;

constexpr double kDeviation = 0.02;  // of first weights

struct Size {
  std::int64_t width = 0, depth = 0, heads = 0;
  double dropout = 0;
  const TensorGroup* group = nullptr;  // null: the model is this rank's alone
};

std::int64_t usual_heads(std::int64_t width) {
  std::int64_t heads = std::max<std::int64_t>(1, width / 64);
  while (width % heads != 0) --heads;
  return heads;
}

Size size_of(const ModelOptions& options) {
  Size size{.width = options.width > 0 ? options.width : 128,
            .depth = options.depth > 0 ? options.depth : 4,
            .dropout = options.dropout,
            .group = options.tensor};
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

  Tensor forward(const Tensor& x) { return parallel::affine(x, weight_, bias_); }

 private:
  Tensor weight_, bias_;
};

// The same numbers, of which a rank keeps its part.
parallel::FirstWeights first_weights(double deviation) {
  return [deviation](Tensor weight, Tensor bias) {
    weight.normal_(0, deviation);
    bias.zero_();
  };
}

// From the residual stream, in blocks of outputs: over a group, each rank has some of each.
AnyModule outwards(const Size& size, std::int64_t blocks, std::int64_t block) {
  if (!size.group)
    return AnyModule(std::make_shared<Conv1D>(size.width, blocks * block, kDeviation));
  return AnyModule(parallel::ColumnParallelLinear(
      parallel::ColumnParallelLinearOptions(size.width, blocks * block, *size.group)
          .blocks(blocks)
          .transposed(true)
          .first_weights(first_weights(kDeviation))));
}

// And back to it.
AnyModule inwards(const Size& size, std::int64_t inputs, double deviation) {
  if (!size.group) return AnyModule(std::make_shared<Conv1D>(inputs, size.width, deviation));
  return AnyModule(parallel::RowParallelLinear(
      parallel::RowParallelLinearOptions(inputs, size.width, *size.group)
          .transposed(true)
          .first_weights(first_weights(deviation))));
}

// Over a group, each rank has some of the heads.
class Attention : public torch::nn::Module {
 public:
  Attention(const Size& size, double residual_deviation)
      : heads_(size.group ? size.heads / size.group->size() : size.heads),
        dropout_(size.dropout),
        c_attn_(outwards(size, 3, size.width)),
        c_proj_(inwards(size, size.width, residual_deviation)) {
    if (size.group) group_ = *size.group;
    register_module("c_attn", c_attn_.ptr());
    register_module("c_proj", c_proj_.ptr());
  }

  Tensor forward(const Tensor& x) {
    const auto parts = c_attn_.forward(x).chunk(3, -1);  // queries, keys, values
    return c_proj_.forward(attend(parts).transpose(1, 2).flatten(-2));
  }

 private:
  Tensor attend(const std::vector<Tensor>& parts) {
    const double dropout = is_training() ? dropout_ : 0.0;
    std::optional<parallel::RegionRandom> random;
    if (group_ && dropout > 0) random.emplace(*group_);
    return torch::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]),
                                               by_head(parts[2]), /*attn_mask=*/{}, dropout,
                                               /*is_causal=*/true);
  }

  // N x T x width as N x heads x T x width / heads.
  Tensor by_head(const Tensor& x) const {
    return x.unflatten(-1, {heads_, x.size(-1) / heads_}).transpose(1, 2);
  }

  const std::int64_t heads_;  // on this rank
  const double dropout_;
  std::optional<TensorGroup> group_;
  AnyModule c_attn_, c_proj_;
};

class Feedforward : public torch::nn::Module {
 public:
  Feedforward(const Size& size, double residual_deviation)
      : c_fc_(outwards(size, 1, 4 * size.width)),
        c_proj_(inwards(size, 4 * size.width, residual_deviation)) {
    register_module("c_fc", c_fc_.ptr());
    register_module("c_proj", c_proj_.ptr());
  }

  Tensor forward(const Tensor& x) { return c_proj_.forward(torch::gelu(c_fc_.forward(x), "tanh")); }

 private:
  AnyModule c_fc_, c_proj_;
};

// The matrix for both ends: vectors of tokens, and scores of them. Over a group, each rank has the
// rows of some tokens.
class Vocabulary {
 public:
  Vocabulary(torch::nn::Module& owner, const Size& size, std::int64_t tokens) {
    if (!size.group) {
      whole_ = owner.register_module("wte", torch::nn::Embedding(tokens, size.width));
      return;
    }
    group_ = *size.group;
    part_ = owner.register_module("wte", parallel::ParallelEmbedding(tokens, size.width, *group_));
  }

  void initialise(double deviation) {
    const auto fill = [deviation](Tensor weight) {
      torch::nn::init::normal_(weight, 0, deviation);
    };
    group_ ? part_->initialise(fill) : fill(whole_->weight);
  }

  Tensor vectors(const Tensor& tokens) {
    return group_ ? part_->forward(tokens) : parallel::embedding(whole_->weight, tokens);
  }
  // Of this rank's tokens.
  Tensor scores(const Tensor& x) {
    return group_ ? parallel::column_parallel_linear(x, part_->weight, {}, *group_)
                  : parallel::linear(x, whole_->weight);
  }

 private:
  std::optional<TensorGroup> group_;
  torch::nn::Embedding whole_{nullptr};
  parallel::ParallelEmbedding part_{nullptr};
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
      : dropout_(size.dropout), wte_(*this, size, vocabulary) {
    wpe_ = register_module("wpe", torch::nn::Embedding(context, size.width));
    wte_.initialise(kDeviation);
    torch::nn::init::normal_(wpe_->weight, 0, kDeviation);
    for (std::int64_t i = 0; i < size.depth; ++i) h_->push_back(std::make_shared<Block>(size));
    register_module("h", h_);
    ln_f_ =
        register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size.width})));
  }

  // Scores of this rank's tokens.
  Tensor forward(const Tensor& tokens) {
    Tensor x = begin(tokens);
    for (const auto& block : *h_) x = block->as<Block>()->forward(x);
    return scores(x);
  }

  // The embeddings, each block, and the head, whose matrix is the first embedding's.
  std::vector<parallel::Layer> layers() {
    std::vector<parallel::Layer> layers{{"transformer.wte",
                                         [this](const Tensor& x) { return begin(x); },
                                         {"transformer.wte", "transformer.wpe"}}};
    for (std::size_t i = 0; i < h_->size(); ++i) {
      const auto block = std::dynamic_pointer_cast<Block>(h_->ptr(i));
      const std::string name = fmt::format("transformer.h.{}", i);
      layers.push_back({name, [block](const Tensor& x) { return block->forward(x); }, {name}});
    }
    layers.push_back({"transformer.ln_f",
                      [this](const Tensor& x) { return scores(x); },
                      {"transformer.ln_f", "transformer.wte"}});
    return layers;
  }

 private:
  Tensor begin(const Tensor& tokens) {
    const Tensor& places = wpe_->weight;
    check(tokens.size(1) <= places.size(0), "gpt knows {} places, and got {} tokens",
          places.size(0), tokens.size(1));
    const Tensor x = wte_.vectors(tokens) + parallel::first_rows(places, tokens.size(1));
    return torch::dropout(x, dropout_, is_training());
  }

  Tensor scores(const Tensor& x) { return wte_.scores(ln_f_->forward(x)); }

  const double dropout_;
  Vocabulary wte_;
  torch::nn::Embedding wpe_{nullptr};
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_{nullptr};
};

class Gpt : public Model {
 public:
  explicit Gpt(const ModelOptions& options)
      : tokens_(options.classes),
        transformer_(register_module(
            "transformer", std::make_shared<Transformer>(size_of(options), options.classes,
                                                         options.input_shape.front()))) {
    if (options.tensor) group_ = *options.tensor;
  }

  Tensor forward(Tensor tokens) override {
    const Tensor scores = transformer_->forward(tokens);
    return group_ ? parallel::gather_from_region(scores, tokens_, *group_) : scores;
  }
  Tensor forward_part(Tensor tokens) override { return transformer_->forward(tokens); }
  std::optional<CutScores> cut_scores() const override {
    return group_ ? std::optional(CutScores{&*group_, tokens_}) : std::nullopt;
  }
  bool decays_matrices_alone() const override { return true; }
  std::vector<parallel::Layer> layers() override { return transformer_->layers(); }

 private:
  const std::int64_t tokens_;  // that it knows
  std::optional<TensorGroup> group_;
  std::shared_ptr<Transformer> transformer_;
};

}  // namespace

std::shared_ptr<Model> make_gpt(const ModelOptions& options) {
  return std::make_shared<Gpt>(options);
}

std::int64_t heads_of_gpt(const ModelOptions& options) { return size_of(options).heads; }

void require_parts_of_gpt(const ModelOptions& options, int ranks) {
  const std::int64_t heads = heads_of_gpt(options);
  require(heads % ranks == 0,
          "gpt: heads = {} cannot be divided by tensor = {}: each rank computes some of them. "
          "Choose heads that are a multiple of it.",
          heads, ranks);
  require(options.classes >= ranks,
          "gpt: tensor = {} has more ranks than the vocabulary has tokens, which are {}: lower "
          "tensor.",
          ranks, options.classes);
}

}  // namespace asup::models
