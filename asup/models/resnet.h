// Residual networks: He et al., "Deep residual learning for image recognition", 2016
// (https://arxiv.org/abs/1512.03385). The bottleneck's stride is at its 3x3 convolution, as in
// torchvision, whose names and shapes of parameters these have (with the ImageNet stem): weights go
// from one to the other.
#pragma once

#include "asup/models/model.h"

namespace asup::models {

std::shared_ptr<Model> make_resnet18(const ModelOptions& options, const MakeNorm& make_norm);
std::shared_ptr<Model> make_resnet34(const ModelOptions& options, const MakeNorm& make_norm);
std::shared_ptr<Model> make_resnet50(const ModelOptions& options, const MakeNorm& make_norm);

}  // namespace asup::models
