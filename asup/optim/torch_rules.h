// The update rules that torch lacks, by torch's operations, for tensors that the loops of kernels
// do not reach: those of a GPU. The equations are in kernels/update/lars.h, lamb.h and asup.h, and
// results are those of the kernels but for rounding. Nothing is fetched from the device. Used from
// one thread.
#pragma once

#include <torch/torch.h>

#include <vector>

#include "asup/kernels/rule.h"

namespace asup::optim {

// `updates`: with this one. needs: a rule of kind lars, lamb or asup, f32 tensors of one shape on
// one device, and no autograd
void update_by_torch(const kernels::Rule& rule, double lr, std::int64_t updates,
                     const torch::Tensor& parameter, const torch::Tensor& gradient,
                     std::vector<torch::Tensor>& slots);

}  // namespace asup::optim
