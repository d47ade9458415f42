#include "asup/checkpoint/writer.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "asup/base/error.h"
#include "asup/base/files.h"
#include "asup/checkpoint/index.h"
#include "asup/checkpoint/safetensors.h"
#include "asup/checkpoint/sha256.h"
#include "asup/collective/text_exchange.h"
#include "asup/sync/model/agreement.h"

namespace asup::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kCutBytes = 1 << 20;  // smaller tensors are written by one rank

// The folder that a checkpoint is written to until it is whole.
class Unfinished {
 public:
  explicit Unfinished(const std::string& folder)
      : folder_(folder), path_(unfinished_path(folder)), sign_(path_ + "/sign") {}

  const std::string& path() const { return path_; }

  // Makes it; ranks that find this sign in it see the same file system.
  void make(const std::string& sign) const {
    std::error_code error;
    fs::create_directory(path_, error);
    require(!error, "{}: cannot be written ({})", folder_, error.message());
    std::ofstream(sign_) << sign;
  }
  bool has(const std::string& sign) const {
    std::error_code none;
    return fs::exists(sign_, none) && read_file(sign_) == sign;
  }

  void write(const std::string& file, std::string_view text) const {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    write_file(file, std::span(&bytes, 1));
  }

  // It takes the place of the checkpoint, without what an attempt before has left in it.
  void finish(const std::set<std::string>& files) const {
    for (const auto& entry : fs::directory_iterator(path_))
      if (!files.contains(entry.path().filename().string())) fs::remove_all(entry.path());
    if (!fs::exists(folder_)) return fs::rename(path_, folder_);
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, folder_.c_str(), RENAME_EXCHANGE) != 0) {
      fs::remove_all(folder_);  // a file system that cannot exchange
      fs::rename(path_, folder_);
    }
    fs::remove_all(path_);
  }

 private:
  const std::string folder_, path_, sign_;
};

std::string random_sign() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

struct Shard {
  std::vector<sync::NamedTensor> tensors;
  std::map<std::string, Index::Tensor> index;

  void add(const WrittenPart& written, const std::string& file) {
    const auto& [name, tensor] = written.part;
    Shape begin(written.shape.size());
    if (!begin.empty()) begin.front() = written.first_row;
    const std::string hash = sha256_hex(PlainElements(tensor).bytes());
    index[name] = {
        tensor.scalar_type(), written.shape, {{file, begin, tensor.sizes().vec(), hash}}};
    tensors.push_back(written.part);
  }
};

Shard shard_of(const std::vector<WrittenPart>& parts, const std::string& file) {
  Shard shard;
  for (const WrittenPart& part : parts) shard.add(part, file);
  return shard;
}

// By the ranks that see the folder, and by rank 0 for those that do not.
void write_shards(Communicator& communicator, const Unfinished& unfinished, bool sees,
                  const Shard& shard) {
  const int ranks = communicator.size();
  const auto file_of = [&](int rank) { return unfinished.path() + "/" + shard_name(rank, ranks); };
  const SafetensorsImage image(shard.tensors);
  sync::together(communicator, [&] {
    if (sees) write_file(file_of(communicator.rank()), image.pieces());
  });
  const auto sent = gather_texts_at_first(communicator, sees ? "" : image.text());
  sync::together(communicator, [&] {
    for (std::size_t rank = 0; rank < sent.size(); ++rank)
      if (!sent[rank].empty()) unfinished.write(file_of(static_cast<int>(rank)), sent[rank]);
  });
}

}  // namespace

std::string unfinished_path(const std::string& folder) { return temporary_path(folder); }

std::vector<WrittenPart> parts_of_rank(const RankTensors& tensors, int rank, int ranks) {
  std::vector<WrittenPart> parts;
  std::vector<std::uint64_t> bytes(static_cast<std::size_t>(ranks));
  for (const auto& [name, tensor] : tensors.common) {
    const std::int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 0;
    if (tensor.nbytes() >= kCutBytes && rows >= ranks) {
      const std::int64_t first = rows * rank / ranks, last = rows * (rank + 1) / ranks;
      parts.push_back({{name, tensor.narrow(0, first, last - first)}, first, tensor.sizes().vec()});
      continue;
    }
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += tensor.nbytes();
    if (least - bytes.begin() == rank) parts.push_back({{name, tensor}, 0, tensor.sizes().vec()});
  }
  for (const sync::NamedTensor& own : tensors.own)
    parts.push_back({own, 0, own.tensor.sizes().vec()});
  return parts;
}

bool write(Communicator& communicator, const std::string& folder, const Json& run,
           const std::vector<WrittenPart>& parts, const std::set<std::string>& beside) {
  const bool is_first = communicator.rank() == 0;
  const Unfinished unfinished(broadcast_text(communicator, folder));
  const std::string sign = broadcast_text(communicator, is_first ? random_sign() : "");
  sync::together(communicator, [&] {
    if (is_first) unfinished.make(sign);
  });
  const Shard shard = shard_of(parts, shard_name(communicator.rank(), communicator.size()));
  const bool sees = unfinished.has(sign);
  write_shards(communicator, unfinished, sees, shard);
  const auto indexes = gather_texts_at_first(communicator, to_json(shard.index).dump());
  sync::together(communicator, [&] {
    if (!is_first) return;
    Index index{run, {}};
    for (const std::string& text : indexes) merge(index.tensors, tensors_from(Json::parse(text)));
    check_whole(index);
    unfinished.write(index_file(unfinished.path()), to_text(index));
    std::set<std::string> files = beside;
    files.insert(fs::path(index_file(folder)).filename().string());
    for (int rank = 0; rank < communicator.size(); ++rank)
      files.insert(shard_name(rank, communicator.size()));
    unfinished.finish(files);
  });
  return sees;
}

}  // namespace asup::checkpoint
