// What Python's torch.save() writes of a state_dict, and torch.load() reads: a zip archive with the
// names in a pickle and the elements beside it. Functions on values; safe from any thread.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>

namespace asup::checkpoint {

// A whole file. It has nothing in it but tensors by name, so that weights_only=True takes it.
std::string torch_archive(const std::map<std::string, torch::Tensor>& tensors);

}  // namespace asup::checkpoint
