#include "asup/train/checkpoint/tensor_pack.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "asup/base/error.h"
#include "asup/train/checkpoint/sha256.h"

namespace asup::train {
namespace {

using Json = nlohmann::ordered_json;
using sync::NamedTensor;

Json index_of(std::span<const NamedTensor> tensors) {
  Json index = Json::array();
  for (const auto& [name, tensor] : tensors) {
    index.push_back({{"name", name},
                     {"type", c10::toString(tensor.scalar_type())},
                     {"shape", tensor.sizes().vec()}});
  }
  return index;
}

// The elements row by row, on the CPU.
torch::Tensor plain(const torch::Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

std::string_view elements(const torch::Tensor& plain) {
  return {static_cast<const char*>(plain.const_data_ptr()), plain.nbytes()};
}

std::string in_words(const Json& entry) {
  return fmt::format("{} {} {}", entry.at("name").get<std::string>(), entry.at("shape").dump(),
                     entry.at("type").get<std::string>());
}

void check_same(const Json& packed, const Json& wanted) {
  const std::size_t both = std::min(packed.size(), wanted.size());
  for (std::size_t i = 0; i < both; ++i) {
    require(packed[i] == wanted[i], "it holds {}, where the model has {}", in_words(packed[i]),
            in_words(wanted[i]));
  }
  require(packed.size() == wanted.size(), "it holds {} tensors, and the model has {}",
          packed.size(), wanted.size());
}

}  // namespace

std::string pack_tensors(std::span<const NamedTensor> tensors) {
  const std::string index = index_of(tensors).dump();
  std::string pack;
  for (int shift = 0; shift < 64; shift += 8) pack += static_cast<char>(index.size() >> shift);
  pack += index;
  for (const auto& named : tensors) pack += elements(plain(named.tensor));
  return pack;
}

void unpack_tensors(std::string_view pack, std::span<const NamedTensor> tensors) {
  check(pack.size() >= 8, "a pack of tensors has no index");
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) {
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(pack[i])) << (8 * i);
  }
  check(length <= pack.size() - 8, "a pack of tensors is cut short");
  check_same(Json::parse(pack.substr(8, length)), index_of(tensors));

  std::uint64_t all = 0;
  for (const auto& named : tensors) all += named.tensor.nbytes();
  std::string_view rest = pack.substr(8 + length);
  check(rest.size() == all, "a pack of tensors has {} bytes for {}", rest.size(), all);
  torch::NoGradGuard no_grad;
  for (const auto& named : tensors) {
    torch::Tensor copy = torch::empty(named.tensor.sizes(), named.tensor.scalar_type());
    std::copy_n(rest.data(), copy.nbytes(), static_cast<char*>(copy.data_ptr()));
    rest.remove_prefix(copy.nbytes());
    // Into the tensor's own memory, which others may look at.
    torch::Tensor target = named.tensor;
    target.copy_(copy);
  }
}

std::string weights_sha256(const torch::nn::Module& module) {
  auto tensors = sync::parameters_of(module);
  for (auto& buffer : sync::buffers_of(module)) tensors.push_back(std::move(buffer));
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  Sha256 hash;
  hash.add(index_of(tensors).dump());
  for (const auto& named : tensors) hash.add(elements(plain(named.tensor)));
  return hash.hex();
}

}  // namespace asup::train
