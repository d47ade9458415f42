#include "asup/checkpoint/weights_sha256.h"

#include <nlohmann/json.hpp>

#include "asup/checkpoint/safetensors.h"
#include "asup/checkpoint/sha256.h"
#include "asup/sync/model/tensors.h"

namespace asup::checkpoint {

std::string weights_sha256(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& [name, tensor] : sync::parameters_of(module)) tensors.emplace(name, tensor);
  for (const auto& [name, tensor] : sync::buffers_of(module)) tensors.emplace(name, tensor);
  return weights_sha256(tensors);
}

std::string weights_sha256(const std::map<std::string, torch::Tensor>& tensors) {
  auto index = nlohmann::ordered_json::array();
  for (const auto& [name, tensor] : tensors)
    index.push_back({{"name", name},
                     {"type", c10::toString(tensor.scalar_type())},
                     {"shape", tensor.sizes().vec()}});
  Sha256 hash;
  hash.add(index.dump());
  for (const auto& [name, tensor] : tensors) hash.add(PlainElements(tensor).bytes());
  return hash.hex();
}

}  // namespace asup::checkpoint
