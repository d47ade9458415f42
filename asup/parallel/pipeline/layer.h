// A model as layers that follow each other, of which the stages of a pipeline are cut. A value; the
// functions in it are called from the thread that trains.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace asup::parallel {

struct Layer {
  std::string name;  // for people: "transformer.h.3"
  // The output of the layer before in, this one's out; one tensor each.
  std::function<torch::Tensor(const torch::Tensor&)> forward;
  // Parameters and buffers that it computes with, by their names in the model: "wte.weight", or of
  // a module, which stands for all that it has: "h.3". Two layers may use the same.
  std::vector<std::string> tensors;

  bool uses(const std::string& tensor) const;
};

// Its modules, one a layer.
std::vector<Layer> layers_of(torch::nn::Sequential model);

}  // namespace asup::parallel
