// Reads tensors of a checkpoint (index.h), whoever wrote it. Used from one thread.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "asup/checkpoint/index.h"
#include "asup/checkpoint/safetensors.h"
#include "asup/collective/communicator.h"
#include "asup/report/checkpoint_series.h"

namespace asup::checkpoint {

using TensorsByName = std::map<std::string, torch::Tensor>;

// A checkpoint's folder, as one process sees it. Everything throws BadInput, with the path: it
// cannot be read, is no checkpoint, is of another version, is cut short, is corrupt.
class Folder {
 public:
  explicit Folder(std::string path);

  const std::string& path() const { return path_; }
  const Index& index() const { return index_; }

  // The whole tensor, and every bit of it as it was written.
  torch::Tensor read(const std::string& name);
  // Reads all of it.
  void verify();

 private:
  torch::Tensor read_part(const std::string& name, const Index::Part& part);

  const std::string path_;
  Index index_;
  std::map<std::string, SafetensorsFile> shards_;  // those opened
};

// The newest that is as it was written, every bit of it.
report::FoundCheckpoint newest_whole(const report::CheckpointSeries& series);

// The same for all ranks of a job: those that do not see rank 0's file system get what they need
// from rank 0. Collective, as are its functions; they throw JobFailed on all ranks.
class Reader {
 public:
  // `path` is rank 0's.
  Reader(Communicator& communicator, const std::string& path);

  const Index& index() const { return index_; }

  // Each rank the tensors that it names; those that are not there are left out. `communicator`: of
  // the same ranks.
  TensorsByName read(Communicator& communicator, const std::vector<std::string>& names);

 private:
  TensorsByName read_here(const std::vector<std::string>& names);

  std::optional<Folder> folder_;  // where this rank sees it
  Index index_;
};

}  // namespace asup::checkpoint
