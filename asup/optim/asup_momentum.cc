#include "asup/optim/asup_momentum.h"

namespace asup::optim {

kernels::Rule AsupOptions::rule() const {
  return {.kind = kernels::Rule::Kind::asup,
          .momentum = momentum(),
          .weight_decay = weight_decay(),
          .alpha = alpha(),
          .eps = eps()};
}

std::unique_ptr<torch::optim::OptimizerOptions> AsupOptions::clone() const {
  return std::make_unique<AsupOptions>(*this);
}

void AsupOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(alpha);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void AsupOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, alpha);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

void AsupMomentum::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<RuleState, AsupOptions>(archive, *this);
}

void AsupMomentum::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<RuleState, AsupOptions>(archive, *this);
}

}  // namespace asup::optim
