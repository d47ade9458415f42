#include "asup/models/resnet.h"

#include <algorithm>
#include <array>

#include "asup/base/error.h"
#include "asup/models/initialise.h"
#include "asup/parallel/pipeline/layers.h"

namespace asup::models {
namespace {

using torch::nn::AnyModule;
using torch::nn::Sequential;

// Every convolution here is followed by BatchNorm, which has a bias of its own, and keeps the size
// but for its stride.
parallel::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                             std::int64_t stride) {
  return parallel::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

void zero_weight(const AnyModule& norm) {
  torch::nn::init::zeros_(norm.ptr()->named_parameters()["weight"]);
}

class Block : public torch::nn::Module {
 public:
  torch::Tensor forward(torch::Tensor input) {
    const torch::Tensor shortcut = downsample_ ? downsample_->forward(input) : input;
    return residual(input).add_(shortcut).relu_();
  }

  virtual void zero_last() = 0;

 protected:
  // Where the block changes the shape, the way around it does too.
  void make_shortcut(std::int64_t in, std::int64_t out, std::int64_t stride,
                     const MakeNorm& make_norm) {
    if (in == out && stride == 1) return;
    downsample_ = register_module("downsample", Sequential(convolution(in, out, 1, stride)));
    downsample_->push_back(make_norm(out));
  }

  AnyModule register_norm(const std::string& name, AnyModule norm) {
    register_module(name, norm.ptr());
    return norm;
  }

 private:
  virtual torch::Tensor residual(torch::Tensor x) = 0;

  Sequential downsample_{nullptr};
};

class BasicBlock : public Block {
 public:
  static constexpr std::int64_t kExpansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride, const MakeNorm& make_norm)
      : conv1_(register_module("conv1", convolution(in, width, 3, stride))),
        bn1_(register_norm("bn1", make_norm(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, 1))),
        bn2_(register_norm("bn2", make_norm(width))) {
    make_shortcut(in, width, stride, make_norm);
  }

  void zero_last() override { zero_weight(bn2_); }

 private:
  torch::Tensor residual(torch::Tensor x) override {
    x = bn1_.forward(conv1_->forward(x)).relu_();
    return bn2_.forward(conv2_->forward(x));
  }

  parallel::Conv2d conv1_;
  AnyModule bn1_;
  parallel::Conv2d conv2_;
  AnyModule bn2_;
};

class Bottleneck : public Block {
 public:
  static constexpr std::int64_t kExpansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, const MakeNorm& make_norm)
      : conv1_(register_module("conv1", convolution(in, width, 1, 1))),
        bn1_(register_norm("bn1", make_norm(width))),
        conv2_(register_module("conv2", convolution(width, width, 3, stride))),
        bn2_(register_norm("bn2", make_norm(width))),
        conv3_(register_module("conv3", convolution(width, width * kExpansion, 1, 1))),
        bn3_(register_norm("bn3", make_norm(width * kExpansion))) {
    make_shortcut(in, width * kExpansion, stride, make_norm);
  }

  void zero_last() override { zero_weight(bn3_); }

 private:
  torch::Tensor residual(torch::Tensor x) override {
    x = bn1_.forward(conv1_->forward(x)).relu_();
    x = bn2_.forward(conv2_->forward(x)).relu_();
    return bn3_.forward(conv3_->forward(x));
  }

  parallel::Conv2d conv1_;
  AnyModule bn1_;
  parallel::Conv2d conv2_;
  AnyModule bn2_;
  parallel::Conv2d conv3_;
  AnyModule bn3_;
};

bool small_stem(const ModelOptions& options) {
  if (options.stem != Stem::automatic) return options.stem == Stem::small;
  return std::max(options.input_shape[1], options.input_shape[2]) <= 64;
}

template <typename BlockType>
class ResNet : public Model {
 public:
  ResNet(const std::array<int, 4>& blocks, const ModelOptions& options, const MakeNorm& make_norm)
      : small_(small_stem(options)),
        conv1_(register_module("conv1", small_ ? convolution(options.input_shape[0], 64, 3, 1)
                                               : convolution(options.input_shape[0], 64, 7, 2))),
        bn1_(make_norm(64)) {
    register_module("bn1", bn1_.ptr());
    std::int64_t in = 64, width = 64;
    for (std::size_t i = 0; i < layers_.size(); ++i, width *= 2) {
      layers_[i] = register_module(fmt::format("layer{}", i + 1), Sequential());
      for (int block = 0; block < blocks[i]; ++block) {
        const std::int64_t stride = i > 0 && block == 0 ? 2 : 1;
        layers_[i]->push_back(std::make_shared<BlockType>(in, width, stride, make_norm));
        in = width * BlockType::kExpansion;
      }
    }
    fc_ = register_module("fc", parallel::Linear(in, options.classes));
    initialise_residual(*this);
    if (options.zero_init_residual)
      for (const auto& layer : layers_)
        for (const auto& block : layer->children()) block->template as<BlockType>()->zero_last();
  }

  torch::Tensor forward(torch::Tensor input) override {
    torch::Tensor x = stem(input);
    for (auto& layer : layers_) x = layer->forward(x);
    return head(x);
  }

  // The stem, each block, and the head.
  std::vector<parallel::Layer> layers() override {
    using torch::Tensor;
    std::vector<parallel::Layer> layers{
        {"stem", [this](const Tensor& x) { return stem(x); }, {"conv1", "bn1"}}};
    for (std::size_t i = 0; i < layers_.size(); ++i)
      for (std::size_t j = 0; j < layers_[i]->size(); ++j) {
        const auto block = std::dynamic_pointer_cast<Block>(layers_[i]->ptr(j));
        const std::string name = fmt::format("layer{}.{}", i + 1, j);
        layers.push_back({name, [block](const Tensor& x) { return block->forward(x); }, {name}});
      }
    layers.push_back({"fc", [this](const Tensor& x) { return head(x); }, {"fc"}});
    return layers;
  }

 private:
  torch::Tensor stem(const torch::Tensor& input) {
    const torch::Tensor x = bn1_.forward(conv1_->forward(input)).relu_();
    return small_ ? x : torch::max_pool2d(x, 3, 2, 1);
  }

  torch::Tensor head(const torch::Tensor& x) { return fc_->forward(x.mean({2, 3})); }

  const bool small_;
  parallel::Conv2d conv1_;
  AnyModule bn1_;
  std::array<Sequential, 4> layers_{nullptr, nullptr, nullptr, nullptr};
  parallel::Linear fc_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_resnet18(const ModelOptions& options, const MakeNorm& make_norm) {
  return std::make_shared<ResNet<BasicBlock>>(std::array{2, 2, 2, 2}, options, make_norm);
}

std::shared_ptr<Model> make_resnet34(const ModelOptions& options, const MakeNorm& make_norm) {
  return std::make_shared<ResNet<BasicBlock>>(std::array{3, 4, 6, 3}, options, make_norm);
}

std::shared_ptr<Model> make_resnet50(const ModelOptions& options, const MakeNorm& make_norm) {
  return std::make_shared<ResNet<Bottleneck>>(std::array{3, 4, 6, 3}, options, make_norm);
}

}  // namespace asup::models
