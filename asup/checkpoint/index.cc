#include "asup/checkpoint/index.h"

#include <fmt/format.h>

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/json.h"
#include "asup/checkpoint/safetensors.h"
#include "asup/checkpoint/sha256.h"

namespace asup::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
using Tensors = std::map<std::string, Index::Tensor>;

constexpr int kFormat = 2;
constexpr std::string_view kNoCheckpoint = "is no checkpoint of asup";

std::string hash_of(const Json& json) {
  Sha256 hash;
  hash.add(json.dump());
  return hash.hex();
}

std::string make_text(const Json& content) {
  return Json{{"asup_checkpoint", kFormat}, {"sha256", hash_of(content)}, {"checkpoint", content}}
             .dump(1) +
         "\n";
}

// Of a file in the checkpoint's own folder, whoever wrote the index.
std::string file_name_from(const Json& json) {
  const auto name = json.get<std::string>();
  require(!name.empty() && name != ".." && name != "." &&
              std::filesystem::path(name).filename() == name,
          "is corrupt: '{}' is no file of its folder", name);
  return name;
}

// Whether the box lies in a tensor of this shape.
bool fits(const Index::Part& part, const Shape& shape) {
  if (part.begin.size() != shape.size() || part.shape.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (part.begin[i] < 0 || part.shape[i] < 0 || part.shape[i] > shape[i] - part.begin[i])
      return false;
  return true;
}

// Before memory is taken for the tensor: its parts are as large as it, which they cannot be by
// saying so.
void require_sound(const std::string& name, const Index::Tensor& tensor) {
  const auto bytes = bytes_of(tensor.type, tensor.shape);
  std::uint64_t there = 0;
  for (const Index::Part& part : tensor.parts) {
    require(bytes && fits(part, tensor.shape), "is corrupt: a part of {} is not in it", name);
    there += bytes_of(tensor.type, part.shape).value_or(0);
    require(there <= *bytes, "is corrupt: the parts of {} are more than it", name);
  }
  require(bytes == there, "is corrupt: {} is not whole", name);
}

}  // namespace

std::string index_file(const std::string& checkpoint) { return checkpoint + "/index.json"; }

std::string shard_name(int shard, int shards) {
  return fmt::format("shard-{}-of-{}.safetensors", shard + 1, shards);
}

Json to_json(const Tensors& tensors) {
  Json json = Json::object();
  for (const auto& [name, tensor] : tensors) {
    Json parts = Json::array();
    for (const auto& part : tensor.parts) {
      parts.push_back({{"shard", part.shard},
                       {"begin", part.begin},
                       {"shape", part.shape},
                       {"sha256", part.sha256}});
      if (!part.name.empty()) parts.back()["name"] = part.name;
    }
    json[name] = {{"dtype", dtype_name(tensor.type)}, {"shape", tensor.shape}, {"parts", parts}};
  }
  return json;
}

Tensors tensors_from(const Json& json) {
  Tensors tensors;
  for (const auto& [name, value] : json.items()) {
    Index::Tensor tensor;
    tensor.type = type_of_dtype(value.at("dtype").get<std::string>());
    value.at("shape").get_to(tensor.shape);
    for (const Json& part : value.at("parts"))
      tensor.parts.push_back({file_name_from(part.at("shard")), part.at("begin").get<Shape>(),
                              part.at("shape").get<Shape>(), part.at("sha256").get<std::string>(),
                              part.value("name", "")});
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

std::string to_text(const Index& index) {
  return make_text({{"run", index.run}, {"tensors", to_json(index.tensors)}});
}

Index index_from(const std::string& text) try {
  const Json json = try_json<Json>(text);
  require(!json.is_discarded(), "{}, or corrupt", kNoCheckpoint);
  require(json.is_object() && json.contains("asup_checkpoint"), "{}", kNoCheckpoint);
  const int format = json.at("asup_checkpoint").get<int>();
  require(format == kFormat, "is a checkpoint of format {}; this asup reads format {}", format,
          kFormat);
  const Json& content = json.at("checkpoint");
  require(make_text(content) == text, "is corrupt: it is not what was written");
  Index index{content.at("run"), tensors_from(content.at("tensors"))};
  for (const auto& [name, tensor] : index.tensors) require_sound(name, tensor);
  return index;
} catch (const Json::exception& error) {
  throw BadInput(fmt::format("is corrupt ({})", error.what()));
}

void merge(Tensors& into, Tensors from) {
  for (auto& [name, tensor] : from) {
    const auto [found, is_new] = into.try_emplace(name, tensor);
    if (is_new) continue;
    check(found->second.type == tensor.type && found->second.shape == tensor.shape,
          "two ranks have tensors of another type or shape called {}", name);
    for (auto& part : tensor.parts) found->second.parts.push_back(std::move(part));
  }
}

// Parts do not overlap, so that counting them is enough.
void check_whole(const Index& index) {
  for (const auto& [name, tensor] : index.tensors) {
    std::int64_t elements = 0;
    for (const auto& part : tensor.parts) elements += c10::multiply_integers(part.shape);
    check(elements == c10::multiply_integers(tensor.shape),
          "{} of {} elements of {} would be in the checkpoint", elements,
          c10::multiply_integers(tensor.shape), name);
  }
}

}  // namespace asup::checkpoint
