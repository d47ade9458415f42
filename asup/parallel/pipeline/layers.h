// torch's linear, convolution and embedding layers, with gradients of their weights that can be
// computed apart from those of their input (weight_gradients.h). Elsewhere they are torch's own.
//
// Each is used from one thread at a time.
#pragma once

#include <torch/torch.h>

namespace asup::parallel {

// As torch::linear: the weight is outputs x inputs, the bias may be undefined.
torch::Tensor linear(const torch::Tensor& input, const torch::Tensor& weight,
                     const torch::Tensor& bias = {});
// The same with a weight that is inputs x outputs, as GPT-2's are.
torch::Tensor affine(const torch::Tensor& input, const torch::Tensor& weight,
                     const torch::Tensor& bias);
torch::Tensor embedding(const torch::Tensor& weight, const torch::Tensor& indices);
torch::Tensor first_rows(const torch::Tensor& weight, std::int64_t count);

class LinearImpl : public torch::nn::LinearImpl {
 public:
  using torch::nn::LinearImpl::LinearImpl;
  torch::Tensor forward(const torch::Tensor& input);
};
TORCH_MODULE(Linear);

class Conv2dImpl : public torch::nn::Conv2dImpl {
 public:
  using torch::nn::Conv2dImpl::Conv2dImpl;
  torch::Tensor forward(const torch::Tensor& input);
};
TORCH_MODULE(Conv2d);

class EmbeddingImpl : public torch::nn::EmbeddingImpl {
 public:
  using torch::nn::EmbeddingImpl::EmbeddingImpl;
  torch::Tensor forward(const torch::Tensor& indices);
};
TORCH_MODULE(Embedding);

}  // namespace asup::parallel
