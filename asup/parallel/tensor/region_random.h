// Random numbers in what a group computes in parts. torch's generator is the same on all ranks of a
// group, so that dropout leaves out the same of what is not cut. Of what is cut, each rank draws
// its own, in the scope of a RegionRandom:
//
//   {
//     asup::parallel::RegionRandom random(group);
//     y = torch::dropout(part, 0.1, /*train=*/true);   // other numbers on each rank
//   }
//
// They follow from the generator's next number and the rank: a checkpoint of the generator is one
// of them too. Holds the process's generator of the CPU: used by one thread of the process at a
// time.
#pragma once

#include <torch/torch.h>

#include "asup/parallel/tensor/tensor_group.h"

namespace asup::parallel {

class RegionRandom {
 public:
  explicit RegionRandom(const TensorGroup& group);
  ~RegionRandom();
  RegionRandom(const RegionRandom&) = delete;
  RegionRandom& operator=(const RegionRandom&) = delete;

 private:
  torch::Tensor state_;  // that the generator goes on from
};

}  // namespace asup::parallel
