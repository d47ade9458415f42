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
#include "asup/base/json.h"
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
    const std::string hash = sha256_hex(PlainElements(tensor).bytes());
    Index::Tensor& whole =
        index.try_emplace(name, Index::Tensor{tensor.scalar_type(), written.shape, {}})
            .first->second;
    const std::string other_name =
        whole.parts.empty() ? "" : fmt::format("{}#{}", name, whole.parts.size() + 1);
    whole.parts.push_back({file, written.begin, tensor.sizes().vec(), hash, other_name});
    tensors.push_back({other_name.empty() ? name : other_name, tensor});
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

WrittenPart uncut(const sync::NamedTensor& each) {
  Shape shape = each.tensor.sizes().vec();
  return {each, Shape(shape.size()), shape};
}

// Of a dimension of a tensor those indices, which begin in the whole as said.
WrittenPart box(const sync::NamedTensor& each, const Shape& whole, std::int64_t dimension,
                std::int64_t at, Cut::Range range) {
  Shape begin(whole.size());
  begin.at(static_cast<std::size_t>(dimension)) = range.begin;
  return {{each.name, each.tensor.narrow(dimension, at, range.size)}, begin, whole};
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
      parts.push_back(box({name, tensor}, tensor.sizes().vec(), 0, first, {first, last - first}));
      continue;
    }
    const auto least = std::min_element(bytes.begin(), bytes.end());
    *least += tensor.nbytes();
    if (least - bytes.begin() == rank) parts.push_back(uncut({name, tensor}));
  }
  for (const sync::NamedTensor& own : tensors.own) {
    const Cut* cut = find_cut(tensors.cuts, own.name);
    if (!cut || own.tensor.sizes() != cut->part()) {
      // Of a tensor that is cut, all ranks have the count of steps.
      if (!cut || cut->has_first()) parts.push_back(uncut(own));
      continue;
    }
    std::int64_t at = 0;
    for (const Cut::Range& range : cut->ranges) {
      parts.push_back(box(own, cut->whole, cut->dimension, at, range));
      at += range.size;
    }
  }
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
    for (const std::string& text : indexes)
      merge(index.tensors, tensors_from(parse_json<Json>(text)));
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
