#include "asup/parallel/pipeline/layer.h"

#include <algorithm>

namespace asup::parallel {

bool Layer::uses(const std::string& tensor) const {
  return std::any_of(tensors.begin(), tensors.end(), [&](const std::string& name) {
    return tensor.starts_with(name) && (tensor.size() == name.size() || tensor[name.size()] == '.');
  });
}

std::vector<Layer> layers_of(torch::nn::Sequential model) {
  std::vector<Layer> layers;
  const auto children = model->named_children();
  std::size_t i = 0;
  for (torch::nn::AnyModule& module : *model) {
    const std::string& name = children[i++].key();
    layers.push_back({name,
                      [module](const torch::Tensor& input) mutable {
                        return module.forward<torch::Tensor>(input);
                      },
                      {name}});
  }
  return layers;
}

}  // namespace asup::parallel
