// A module's tensors as a list that all ranks share.
// Values only; safe from any thread as far as the tensors are.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "asup/layout/layout.h"
#include "asup/tensors/tensors.h"

namespace asup::sync {

using asup::describe;  // tensors, beside what else is described here

struct NamedTensor {
  std::string name;  // as the module registered it: "layer1.0.conv1.weight"
  torch::Tensor tensor;
};

// Each tensor once, under its first name, however many modules share it.
std::vector<NamedTensor> parameters_of(const torch::nn::Module& module);
std::vector<NamedTensor> buffers_of(const torch::nn::Module& module);

// The same in memory of their own, without gradients.
std::vector<NamedTensor> copies_of(std::vector<NamedTensor> tensors);

// needs: types that reductions know
std::vector<layout::TensorShape> shapes_of(const std::vector<NamedTensor>& tensors);

// A tensor of the shape, the type and, where there are no holes in it, the strides of `like`, in
// memory of its device that it keeps alive.
torch::Tensor view_like(const torch::Tensor& like, void* data, std::shared_ptr<void> memory);
// The same in memory of the host, wherever `like` is.
torch::Tensor host_view_like(const torch::Tensor& like, void* data, std::shared_ptr<void> memory);

// Of all elements.
std::uint64_t total_bytes(const std::vector<NamedTensor>& tensors);

}  // namespace asup::sync
