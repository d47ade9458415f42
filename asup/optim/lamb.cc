#include "asup/optim/lamb.h"

namespace asup::optim {

kernels::Rule LambOptions::rule() const {
  return {.kind = kernels::Rule::Kind::lamb,
          .weight_decay = weight_decay(),
          .eps = eps(),
          .beta1 = std::get<0>(betas()),
          .beta2 = std::get<1>(betas()),
          .trust = 1};
}

std::unique_ptr<torch::optim::OptimizerOptions> LambOptions::clone() const {
  return std::make_unique<LambOptions>(*this);
}

void LambOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void LambOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(betas_t, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

void Lamb::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<RuleState, LambOptions>(archive, *this);
}

void Lamb::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<RuleState, LambOptions>(archive, *this);
}

}  // namespace asup::optim
