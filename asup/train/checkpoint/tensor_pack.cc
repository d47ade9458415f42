#include "asup/train/checkpoint/tensor_pack.h"

#include <algorithm>
#include <array>
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

// Of a tensor in an index.
std::uint64_t bytes_of(const Json& entry) {
  constexpr std::array kTypes{torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                              torch::kInt64,   torch::kInt32,   torch::kInt16,   torch::kInt8,
                              torch::kUInt8,   torch::kBool};
  const auto name = entry.at("type").get<std::string>();
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](auto each) { return name == c10::toString(each); });
  check(type != kTypes.end(), "a pack of tensors has elements of type {}", name);
  std::uint64_t bytes = torch::elementSize(*type);
  for (const auto& side : entry.at("shape")) bytes *= side.get<std::uint64_t>();
  return bytes;
}

struct Opened {
  Json index;
  std::string_view elements;
};

Opened open(std::string_view pack) {
  check(pack.size() >= 8, "a pack of tensors has no index");
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) {
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(pack[i])) << (8 * i);
  }
  check(length <= pack.size() - 8, "a pack of tensors is cut short");
  return {Json::parse(pack.substr(8, length)), pack.substr(8 + length)};
}

// Into the tensor's own memory, which others may look at.
void set_elements(torch::Tensor tensor, std::string_view bytes) {
  torch::NoGradGuard no_grad;
  torch::Tensor copy = torch::empty(tensor.sizes(), tensor.scalar_type());
  std::copy_n(bytes.data(), copy.nbytes(), static_cast<char*>(copy.data_ptr()));
  tensor.copy_(copy);
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
  const Opened opened = open(pack);
  check_same(opened.index, index_of(tensors));
  std::uint64_t all = 0;
  for (const auto& named : tensors) all += named.tensor.nbytes();
  std::string_view rest = opened.elements;
  check(rest.size() == all, "a pack of tensors has {} bytes for {}", rest.size(), all);
  for (const auto& named : tensors) {
    set_elements(named.tensor, rest.substr(0, named.tensor.nbytes()));
    rest.remove_prefix(named.tensor.nbytes());
  }
}

void unpack_known(std::string_view pack, std::span<const NamedTensor> tensors) {
  const Opened opened = open(pack);
  const Json wanted = index_of(tensors);
  std::string_view rest = opened.elements;
  for (const Json& entry : opened.index) {
    const std::uint64_t bytes = bytes_of(entry);
    check(bytes <= rest.size(), "a pack of tensors is cut short");
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (wanted[i] == entry) set_elements(tensors[i].tensor, rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
}

std::string mean_of_packs(std::span<const std::string> packs, std::span<const NamedTensor> like) {
  std::vector<NamedTensor> one;
  std::vector<torch::Tensor> sums;
  for (const auto& [name, tensor] : like) {
    one.push_back({name, torch::empty(tensor.sizes(), tensor.scalar_type())});
    sums.push_back(torch::zeros(tensor.sizes(), torch::kFloat64));
  }
  for (const std::string& pack : packs) {
    unpack_tensors(pack, one);
    for (std::size_t i = 0; i < one.size(); ++i) sums[i].add_(one[i].tensor);
  }
  for (std::size_t i = 0; i < one.size(); ++i)
    one[i].tensor.copy_(sums[i].div_(static_cast<double>(packs.size())));
  return pack_tensors(one);
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
