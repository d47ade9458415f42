#include "asup/checkpoint/reader.h"

#include <filesystem>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/base/json.h"
#include "asup/checkpoint/sha256.h"
#include "asup/collective/text_exchange.h"
#include "asup/sync/model/agreement.h"

namespace asup::checkpoint {
namespace {

using Json = nlohmann::json;

Index read_index(const std::string& path) try {
  require(std::filesystem::is_directory(path),
          "is no checkpoint of asup, or one of an older version");
  return index_from(read_file(index_file(path)));
} catch (const BadInput& error) {
  const std::string what = error.what();
  throw BadInput(what.starts_with(path) ? what : fmt::format("{}: {}", path, what));
}

}  // namespace

Folder::Folder(std::string path) : path_(std::move(path)), index_(read_index(path_)) {}

torch::Tensor Folder::read_part(const std::string& name, const Index::Part& part) {
  const std::string file = path_ + "/" + part.shard;
  const auto found = shards_.find(part.shard);
  SafetensorsFile& shard =
      found != shards_.end() ? found->second : shards_.try_emplace(part.shard, file).first->second;
  torch::Tensor tensor = shard.read(part.name.empty() ? name : part.name);
  require(tensor.sizes() == part.shape && sha256_hex(PlainElements(tensor).bytes()) == part.sha256,
          "{}: is corrupt: {} is not what was written", file, name);
  return tensor;
}

torch::Tensor Folder::read(const std::string& name) {
  const auto found = index_.tensors.find(name);
  require(found != index_.tensors.end(), "{}: has no tensor {}", path_, name);
  const auto& [type, shape, parts] = found->second;
  if (parts.size() == 1 && parts.front().shape == shape) return read_part(name, parts.front());
  torch::Tensor tensor = torch::empty(shape, type);
  for (const Index::Part& part : parts) {
    torch::Tensor box = tensor;
    for (std::size_t i = 0; i < shape.size(); ++i)
      box = box.narrow(static_cast<std::int64_t>(i), part.begin[i], part.shape[i]);
    box.copy_(read_part(name, part));
  }
  return tensor;
}

void Folder::verify() {
  for (const auto& [name, tensor] : index_.tensors)
    for (const auto& part : tensor.parts) read_part(name, part);
}

report::FoundCheckpoint newest_whole(const report::CheckpointSeries& series) {
  return series.newest_whole([](const std::string& path) { Folder(path).verify(); });
}

Reader::Reader(Communicator& communicator, const std::string& path) {
  const std::string folder = broadcast_text(communicator, path);
  std::string text;
  sync::together(communicator, [&] {
    if (communicator.rank() != 0) return;
    folder_.emplace(folder);
    text = to_text(folder_->index());
  });
  text = broadcast_text(communicator, text);
  index_ = index_from(text);
  if (communicator.rank() == 0) return;
  try {
    folder_.emplace(folder);
    if (to_text(folder_->index()) != text) folder_.reset();
  } catch (const BadInput&) {
    folder_.reset();  // it is on another host's file system
  }
}

TensorsByName Reader::read_here(const std::vector<std::string>& names) {
  TensorsByName tensors;
  for (const std::string& name : names)
    if (index_.has(name)) tensors.emplace(name, folder_->read(name));
  return tensors;
}

TensorsByName Reader::read(Communicator& communicator, const std::vector<std::string>& names) {
  TensorsByName tensors;
  const auto asked = gather_texts_at_first(communicator, folder_ ? "" : Json(names).dump());
  std::vector<std::string> answers(asked.size());
  sync::together(communicator, [&] {
    if (folder_) tensors = read_here(names);
    for (std::size_t rank = 0; rank < asked.size(); ++rank) {
      if (asked[rank].empty()) continue;
      std::vector<sync::NamedTensor> answer;
      for (const auto& [name, tensor] : read_here(parse_json(asked[rank])))
        answer.push_back({name, tensor});
      answers[rank] = SafetensorsImage(answer).text();
    }
  });
  const std::string answer = scatter_texts(communicator, {answers.begin(), answers.end()});
  return folder_ ? tensors : SafetensorsFile::read_all(answer);
}

}  // namespace asup::checkpoint
