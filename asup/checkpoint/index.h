// What a checkpoint's folder holds, by name. A checkpoint is a folder:
//
//   index.json                     what it is of, and which shards hold which tensor
//   shard-1-of-3.safetensors, …    the tensors
//
// A tensor may lie in several shards, a part in each: a box of its elements. So whoever reads it
// needs to know nothing of how many wrote it, and nothing says where in memory anything was.
// Functions on values; safe from any thread.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace asup::checkpoint {

using Shape = std::vector<std::int64_t>;

struct Index {
  struct Part {
    std::string shard;  // the file's name
    Shape begin;        // where in the tensor its first element is
    Shape shape;
    std::string sha256;  // of its elements
    std::string name{};  // in the shard; empty: the tensor's, of which there it is the first part

    bool operator==(const Part&) const = default;
  };
  struct Tensor {
    torch::ScalarType type = torch::kFloat32;
    Shape shape;
    std::vector<Part> parts;

    bool operator==(const Tensor&) const = default;
  };

  nlohmann::ordered_json run;             // what its writer says of it
  std::map<std::string, Tensor> tensors;  // by name

  bool has(const std::string& name) const { return tensors.contains(name); }
};

std::string index_file(const std::string& checkpoint);
std::string shard_name(int shard, int shards);

std::string to_text(const Index& index);

// Throws BadInput for a text that to_text() has not written, saying whether it is damaged, of
// another version, or something else.
Index index_from(const std::string& text);

nlohmann::ordered_json to_json(const std::map<std::string, Index::Tensor>& tensors);
std::map<std::string, Index::Tensor> tensors_from(const nlohmann::ordered_json& json);

// Adds the parts of tensors that both have. Throws Error where they differ in type or shape.
void merge(std::map<std::string, Index::Tensor>& into, std::map<std::string, Index::Tensor> from);

// Throws Error where the parts of a tensor are not the whole of it.
void check_whole(const Index& index);

}  // namespace asup::checkpoint
