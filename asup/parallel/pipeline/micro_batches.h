// A batch as the micro-batches that a pipeline takes. Safe from any thread.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace asup::parallel {

// Throws BadInput for a batch that so many micro-batches of one size do not make up.
void require_divisible(const torch::Tensor& batch, int micro_batches);

// For the rank that needs them: `what` is "input" or "target", `stage` "first" or "last". Throws
// BadInput where the rank has no such batch, or it does not divide.
std::vector<torch::Tensor> micro_batches_of(const torch::Tensor& batch, int micro_batches, int rank,
                                            const char* what, const char* stage);

}  // namespace asup::parallel
