// Cross-entropy of scores of which each rank of a group has those of its part of the classes: two
// small all-reduces of a few numbers a prediction, and no scores travel. On each rank used from the
// thread that runs forward; collective.
#pragma once

#include <torch/torch.h>

#include "asup/parallel/tensor/tensor_group.h"

namespace asup::parallel {

// Scores are … × this rank's classes, `classes` on all ranks together (part_of() of cut.h), and
// targets classes of all. The loss of each prediction, in the shape of `target`, the same on all
// ranks. `smoothing`: the share of each target that is spread evenly over all classes. Throws
// BadInput for a target that is no class, JobFailed when a peer was lost or late.
torch::Tensor parallel_cross_entropy(const torch::Tensor& scores, const torch::Tensor& target,
                                     std::int64_t classes, const TensorGroup& group,
                                     double smoothing = 0);

}  // namespace asup::parallel
