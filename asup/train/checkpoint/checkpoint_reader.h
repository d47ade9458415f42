// Reads tensors of a checkpoint (checkpoint_index.h), whoever wrote it. Used from one thread.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"
#include "asup/train/checkpoint/checkpoint_index.h"
#include "asup/train/checkpoint/safetensors.h"

namespace asup::train {

using TensorsByName = std::map<std::string, torch::Tensor>;

// A checkpoint's folder, as one process sees it. Everything throws BadInput, with the path: it
// cannot be read, is no checkpoint, is of another version, is cut short, is corrupt.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path);

  const std::string& path() const { return path_; }
  const CheckpointIndex& index() const { return index_; }

  // The whole tensor, and every bit of it as it was written.
  torch::Tensor read(const std::string& name);
  // Reads all of it.
  void verify();

 private:
  torch::Tensor read_part(const std::string& name, const CheckpointIndex::Part& part);

  const std::string path_;
  CheckpointIndex index_;
  std::map<std::string, SafetensorsFile> shards_;  // those opened
};

// The same for all ranks of a job: those that do not see rank 0's file system get what they need
// from rank 0. Collective, as are its functions; they throw JobFailed on all ranks.
class CheckpointReader {
 public:
  // `path` is rank 0's.
  CheckpointReader(Communicator& communicator, const std::string& path);

  const CheckpointIndex& index() const { return index_; }

  // Each rank the tensors that it names; those that are not there are left out. `communicator`: of
  // the same ranks.
  TensorsByName read(Communicator& communicator, const std::vector<std::string>& names);

 private:
  TensorsByName read_here(const std::vector<std::string>& names);

  std::optional<CheckpointFolder> folder_;  // where this rank sees it
  CheckpointIndex index_;
};

}  // namespace asup::train
