// First weights: He et al., "Delving deep into rectifiers", 2015
// (https://arxiv.org/abs/1502.01852).
#pragma once

#include <torch/torch.h>

namespace asup::models {

// Normal weights and no bias for convolutions and linear layers, so that the signal keeps its size
// on the way forward through ReLU. The same numbers where layers are cut over a tensor group.
void initialise_plain(torch::nn::Module& module);

// As torchvision begins its ResNets: convolutions so that the gradient keeps its size on the way
// back; linear layers as torch makes them.
void initialise_residual(torch::nn::Module& module);

}  // namespace asup::models
