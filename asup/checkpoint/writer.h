// Writes a checkpoint (index.h): each rank a shard, and the first one the index. Collective; used
// from one thread at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "asup/checkpoint/cut.h"
#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup::checkpoint {

// What a rank has for a checkpoint. No two ranks have the same name but in `common`.
struct RankTensors {
  std::vector<sync::NamedTensor> common;  // the same on all ranks: each writes a part of them
  std::vector<sync::NamedTensor> own;     // on this rank alone
  Cuts cuts{};                            // of `own`, those of which it has a part
};

// A tensor, or a box of it, that one rank writes.
struct WrittenPart {
  sync::NamedTensor part;
  Shape begin;  // of the box, in the whole
  Shape shape;  // of the whole
};
// What rank `rank` of `ranks` writes, as views: so that ranks write about as many bytes each.
std::vector<WrittenPart> parts_of_rank(const RankTensors& tensors, int rank, int ranks);

// Where the folder is until it is whole: rank 0 may put more into it before write().
std::string unfinished_path(const std::string& folder);

// The folder appears when it is whole, in place of one that was there, with what rank 0 has put
// into it under the names `beside`. A rank that does not see rank 0's file system sends its shard
// to rank 0, which writes it. Throws JobFailed on all ranks when one cannot write; what was there
// is untouched then. Returns whether this rank sees the folder.
bool write(Communicator& communicator, const std::string& folder, const nlohmann::ordered_json& run,
           const std::vector<WrittenPart>& parts, const std::set<std::string>& beside = {});

}  // namespace asup::checkpoint
