// Writes a checkpoint (index.h): each rank a shard, and the first one the index. Called
// by the thread that trains; collective.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/sync/model/tensors.h"

namespace asup::checkpoint {

// What a rank has for a checkpoint. No two ranks have the same name but in `common`.
struct RankTensors {
  std::vector<sync::NamedTensor> common;  // the same on all ranks: each writes a part of them
  std::vector<sync::NamedTensor> own;     // on this rank alone
};

// The folder appears when it is whole, in place of one that was there. A rank that does not see
// rank 0's file system sends its shard to rank 0, which writes it. Throws JobFailed on all ranks
// when one cannot write; what was there is untouched then.
void write(Communicator& communicator, const std::string& folder, const nlohmann::ordered_json& run,
           const RankTensors& tensors);

// Those of `tensors` that rank `rank` of `ranks` writes, as views of them, and of which box of the
// whole each is the begin: so that ranks write about as many bytes each.
struct WrittenPart {
  sync::NamedTensor part;
  std::int64_t first_row = 0;       // of the whole; 0 too where it has no rows
  std::vector<std::int64_t> shape;  // of the whole
};
std::vector<WrittenPart> parts_of_rank(const std::vector<sync::NamedTensor>& tensors, int rank,
                                       int ranks);

}  // namespace asup::checkpoint
