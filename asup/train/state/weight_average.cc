#include "asup/train/state/weight_average.h"

#include <algorithm>

#include "asup/sync/model/buffer_exchange.h"
#include "asup/sync/model/kept_tensors.h"

namespace asup::train {
namespace {

using sync::NamedTensor;

// Counts have no average.
std::vector<NamedTensor> that_are_averaged(const torch::nn::Module& module) {
  std::vector<NamedTensor> all = sync::parameters_of(module);
  for (const NamedTensor& buffer : sync::buffers_of(module)) all.push_back(buffer);
  std::erase_if(all, [](const NamedTensor& each) { return !each.tensor.is_floating_point(); });
  return all;
}

std::vector<torch::Tensor> plain(const std::vector<NamedTensor>& named) {
  std::vector<torch::Tensor> tensors;
  for (const NamedTensor& each : named) tensors.push_back(each.tensor.detach());
  return tensors;
}

void average_over_ranks(Communicator& communicator, const std::vector<NamedTensor>& tensors) {
  if (!tensors.empty()) sync::average_packed(communicator, tensors);
}

}  // namespace

WeightAverage::WeightAverage(torch::nn::Module& module, double decay)
    : module_(module), decay_(decay), averaged_(that_are_averaged(module)), averages_(copies()) {
  for (const NamedTensor& parameter : sync::parameters_of(module))
    if (parameter.tensor.is_floating_point()) ++parameters_;
}

std::vector<NamedTensor> WeightAverage::copies() const {
  std::vector<NamedTensor> copies = averaged_;
  for (NamedTensor& each : copies) each.tensor = each.tensor.detach().clone();
  return copies;
}

std::vector<NamedTensor> WeightAverage::buffers() const {
  return {averages_.begin() + static_cast<std::ptrdiff_t>(parameters_), averages_.end()};
}

void WeightAverage::update(std::int64_t step) {
  torch::NoGradGuard no_grad;
  const auto n = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + n) / (10 + n));
  auto averages = plain(averages_);
  at::_foreach_lerp_(averages, plain(averaged_), 1 - decay);
}

void WeightAverage::with_mean(Communicator& communicator, bool models_differ,
                              const std::function<void()>& use) {
  const sync::KeptTensors weights(sync::parameters_of(module_)), own(sync::buffers_of(module_));
  {
    torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < averages_.size(); ++i)
      averaged_[i].tensor.detach().copy_(averages_[i].tensor);
  }
  average_over_ranks(communicator, sync::buffers_of(module_));
  if (models_differ) average_over_ranks(communicator, sync::parameters_of(module_));
  use();
}

void WeightAverage::merge(Communicator& communicator) {
  average_over_ranks(communicator, averages_);
}

}  // namespace asup::train
