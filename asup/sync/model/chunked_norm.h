// The norm of many tensors as a sum over chunks of fixed places, in a fixed order: whoever sums
// which of them, the bits are the same. Of 32-bit floats on every processor, too. Used from one
// thread at a time.
#pragma once

#include <torch/torch.h>

#include <span>
#include <vector>

#include "asup/layout/shards.h"
#include "asup/sync/model/tensors.h"

namespace asup::sync {

class ChunkSums {
 public:
  explicit ChunkSums(const std::vector<NamedTensor>& parameters);

  // The squares of a parameter's gradient, or a part of it that begins after so many elements.
  // needs: no gaps in memory, on the CPU; whole chunks before it
  void add(std::size_t parameter, std::uint64_t offset, const torch::Tensor& gradient);

  // By chunk; 0 where nothing was added.
  std::span<double> all() { return sums_; }
  double sum() const;

 private:
  std::vector<std::size_t> first_;  // chunk of a parameter
  std::vector<double> sums_;
};

}  // namespace asup::sync
