// How a tensor is cut over a group's ranks: along one dimension, rank after rank. Safe from any
// thread; pure, but for put_together().
//
// A dimension may be several blocks behind each other, each of which is cut by itself: the queries,
// keys and values of one matrix, of which each rank has those of its heads.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "asup/collective/communicator.h"

namespace asup::parallel {

// So many indices of a dimension, from `begin` on.
struct IndexRange {
  std::int64_t begin = 0;
  std::int64_t size = 0;

  bool operator==(const IndexRange&) const = default;
};

// Of `whole` things dealt out in order: parts differ by one at most, the longer ones first.
IndexRange part_of(std::int64_t whole, int rank, int ranks);

struct TensorCut {
  std::int64_t dimension = 0;
  std::int64_t whole = 0;   // indices of it, on all ranks together
  std::int64_t blocks = 1;  // of equal size

  // Those of a rank, ascending: they follow each other in its part.
  std::vector<IndexRange> ranges(int rank, int ranks) const;
  // How many they are.
  std::int64_t size(int rank, int ranks) const;

  bool operator==(const TensorCut&) const = default;
};

// A rank's part, copied. needs: cut.whole of the dimension
torch::Tensor part_of(const torch::Tensor& whole, const TensorCut& cut, int rank, int ranks);
// The shape of the whole, of which a part has this one.
std::vector<std::int64_t> whole_shape(torch::IntArrayRef part, const TensorCut& cut);
// Puts a rank's part into its place.
void put_part(torch::Tensor whole, const torch::Tensor& part, const TensorCut& cut, int rank,
              int ranks);
// Of the parts of a group's ranks the whole, on the first of them; elsewhere the part. `what` opens
// the message of a failure. Collective; throws JobFailed. needs: memory on the CPU, without holes
torch::Tensor put_together(Communicator& group, const torch::Tensor& own, const TensorCut& cut,
                           const char* what);

// A module that has only a part of some of its own parameters.
class CutModule {
 public:
  virtual ~CutModule() = default;
  // By the parameters' names in this module.
  virtual std::map<std::string, TensorCut> cuts() const = 0;
};

// Of a module and all those in it, by the parameters' whole names. Parameters that are not in it
// are the same on all ranks.
std::map<std::string, TensorCut> cuts_of(const torch::nn::Module& module);

}  // namespace asup::parallel
