#include "asup/checkpoint/weights_sha256.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "asup/checkpoint/safetensors.h"
#include "asup/checkpoint/sha256.h"
#include "asup/sync/model/tensors.h"

namespace asup::checkpoint {

std::string weights_sha256(const torch::nn::Module& module) {
  auto tensors = sync::parameters_of(module);
  for (auto& buffer : sync::buffers_of(module)) tensors.push_back(std::move(buffer));
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  auto index = nlohmann::ordered_json::array();
  for (const auto& [name, tensor] : tensors)
    index.push_back({{"name", name},
                     {"type", c10::toString(tensor.scalar_type())},
                     {"shape", tensor.sizes().vec()}});
  Sha256 hash;
  hash.add(index.dump());
  for (const auto& named : tensors) hash.add(PlainElements(named.tensor).bytes());
  return hash.hex();
}

}  // namespace asup::checkpoint
