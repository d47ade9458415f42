#include "asup/models/initialise.h"

#include "asup/parallel/tensor/linear.h"

namespace asup::models {
namespace {

using torch::nn::Conv2d;
using torch::nn::Linear;

template <typename Layer, typename FanMode>
void rectified(Layer& layer, FanMode mode) {
  torch::nn::init::kaiming_normal_(layer.weight, 0, mode, torch::kReLU);
  if (layer.bias.defined()) torch::nn::init::zeros_(layer.bias);
}

void rectified_parts(parallel::ParallelLinear& layer) {
  layer.initialise([](torch::Tensor weight, torch::Tensor bias) {
    torch::nn::init::kaiming_normal_(weight, 0, torch::kFanIn, torch::kReLU);
    torch::nn::init::zeros_(bias);
  });
}

}  // namespace

void initialise_plain(torch::nn::Module& module) {
  for (const auto& layer : module.modules(/*include_self=*/false)) {
    if (auto* conv = layer->as<Conv2d>()) rectified(*conv, torch::kFanIn);
    if (auto* linear = layer->as<Linear>()) rectified(*linear, torch::kFanIn);
    if (auto* parts = dynamic_cast<parallel::ParallelLinear*>(layer.get())) rectified_parts(*parts);
  }
}

void initialise_residual(torch::nn::Module& module) {
  for (const auto& layer : module.modules(/*include_self=*/false))
    if (auto* conv = layer->as<Conv2d>()) rectified(*conv, torch::kFanOut);
}

}  // namespace asup::models
