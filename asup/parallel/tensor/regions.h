// The ends of what a group computes in parts, as autograd sees them: where forward does nothing,
// backward communicates, and the other way round. Layers are made of them, and so can be a
// program's own. On each rank used from the thread that runs forward; collective.
#pragma once

#include <torch/torch.h>

#include "asup/parallel/tensor/tensor_group.h"

namespace asup::parallel {

// The tensor as it is, for a computation of which each rank does a part: its gradient is the sum of
// the ranks'.
torch::Tensor copy_to_region(const torch::Tensor& input, const TensorGroup& group);

// The sum of what the ranks have; its gradient is that of each.
torch::Tensor reduce_from_region(const torch::Tensor& input, const TensorGroup& group);

// This rank's part of the last dimension (part_of() of cut.h); its gradient is all ranks'.
torch::Tensor split_to_region(const torch::Tensor& input, const TensorGroup& group);

// All ranks' parts of the last dimension, `whole` together; the gradient is that of one's own part.
torch::Tensor gather_from_region(const torch::Tensor& part, std::int64_t whole,
                                 const TensorGroup& group);

}  // namespace asup::parallel
