// What a rank has of a tensor that is cut over several: ranges of one dimension. In a checkpoint
// such a tensor is whole, whoever has written it. Pure; safe from any thread.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "asup/checkpoint/index.h"

namespace asup::checkpoint {

struct Cut {
  struct Range {
    std::int64_t begin = 0, size = 0;
  };
  Shape whole;
  std::int64_t dimension = 0;
  std::vector<Range> ranges;  // of the whole; they follow each other in the part

  bool has_first() const { return ranges.front().begin == 0; }
  Shape part() const;
  torch::Tensor part_of(const torch::Tensor& whole) const;
};

// By the parameters' names.
using Cuts = std::map<std::string, Cut>;

// That of a tensor by its name in a checkpoint ("optimizer/exp_avg/fc.weight"): of a parameter or
// of what an optimizer keeps for it. Null where it is not cut.
const Cut* find_cut(const Cuts& cuts, const std::string& name);

}  // namespace asup::checkpoint
