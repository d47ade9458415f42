// A model's weights in 64 hexadecimal digits, to compare runs. Used from one thread at a time for
// one module.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

namespace asup::checkpoint {

// SHA-256 over all parameters and buffers, with names, types and shapes, in the order of names.
std::string weights_sha256(const torch::nn::Module& module);
std::string weights_sha256(const std::map<std::string, torch::Tensor>& tensors);

}  // namespace asup::checkpoint
