#include "asup/optim/lars.h"

namespace asup::optim {

kernels::Rule LarsOptions::rule() const {
  return {.kind = kernels::Rule::Kind::lars,
          .momentum = momentum(),
          .weight_decay = weight_decay(),
          .trust = trust()};
}

std::unique_ptr<torch::optim::OptimizerOptions> LarsOptions::clone() const {
  return std::make_unique<LarsOptions>(*this);
}

void LarsOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(trust);
}

void LarsOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, trust);
}

void Lars::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<RuleState, LarsOptions>(archive, *this);
}

void Lars::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<RuleState, LarsOptions>(archive, *this);
}

}  // namespace asup::optim
