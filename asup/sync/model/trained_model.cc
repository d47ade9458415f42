#include "asup/sync/model/trained_model.h"

#include <unordered_set>

#include "asup/base/error.h"
#include "asup/base/log.h"

namespace asup::sync {
namespace {

void require_averageable(const NamedTensor& parameter) {
  const auto& [name, tensor] = parameter;
  const auto dtype = dtype_of(tensor);
  require(tensor.layout() == torch::kStrided && dtype && is_floating(*dtype),
          "parameter {} is {}: only dense f32, f64, f16 and bf16 parameters can be averaged", name,
          describe(tensor));
  require(tensor.is_leaf(),
          "parameter {} is computed from other tensors: register what it is computed from, and "
          "compute it in forward",
          name);
  require(
      tensor.is_cpu() || tensor.is_cuda(),
      "parameter {} is on {}: training is on the CPU or on CUDA GPUs; move the model there first",
      name, tensor.device().str());
}

void require_one_device(const std::vector<NamedTensor>& parameters,
                        const std::vector<NamedTensor>& buffers) {
  const NamedTensor& first = parameters.front();
  const auto require_there = [&](const char* kind, const NamedTensor& other) {
    require(other.tensor.device() == first.tensor.device(),
            "parameter {} is on {}, and {} {} on {}: move the whole model to one device with "
            "module.to(device), before the optimizer and the replica are made",
            first.name, first.tensor.device().str(), kind, other.name, other.tensor.device().str());
  };
  for (const NamedTensor& parameter : parameters) require_there("parameter", parameter);
  for (const NamedTensor& buffer : buffers) require_there("buffer", buffer);
}

std::vector<NamedTensor> trainable_of(const std::vector<NamedTensor>& parameters) {
  std::vector<NamedTensor> result;
  for (const NamedTensor& parameter : parameters)
    if (parameter.tensor.requires_grad()) result.push_back(parameter);
  require(!result.empty(),
          "the model has no parameter that requires a gradient: there is nothing to train");
  for (const NamedTensor& parameter : result) require_averageable(parameter);
  return result;
}

std::size_t size_of(const torch::optim::Optimizer& optimizer) {
  std::size_t size = 0;
  for (const auto& group : optimizer.param_groups()) size += group.params().size();
  return size;
}

}  // namespace

TrainedModel::TrainedModel(const torch::nn::Module& module, torch::optim::Optimizer& optimizer)
    : optimizer_(optimizer),
      parameters_(parameters_of(module)),
      buffers_(buffers_of(module)),
      trainable_(trainable_of(parameters_)),
      optimizer_size_(size_of(optimizer)) {
  require_one_device(parameters_, buffers_);
  for (const NamedTensor& parameter : parameters_)
    requires_grad_.push_back(parameter.tensor.requires_grad());
  require(!dynamic_cast<torch::optim::LBFGS*>(&optimizer),
          "LBFGS computes gradients inside its step, where they cannot be averaged: use another "
          "optimizer");
  check_optimizer();
}

void TrainedModel::check_optimizer() const {
  std::unordered_set<const void*> known;
  for (const NamedTensor& parameter : parameters_)
    known.insert(parameter.tensor.unsafeGetTensorImpl());
  for (std::size_t g = 0; g < optimizer_.param_groups().size(); ++g)
    for (const torch::Tensor& tensor : optimizer_.param_groups()[g].params())
      require(known.contains(tensor.unsafeGetTensorImpl()),
              "group {} of the optimizer holds a parameter ({}) that the model does not have: it "
              "would differ between ranks; register it in one module with the model, and make the "
              "replica of that module",
              g, describe(tensor));
}

void TrainedModel::check_unchanged() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const bool now = parameters_[i].tensor.requires_grad();
    if (now == requires_grad_[i]) continue;
    check(!now,
          "parameter {} requires a gradient now and did not when the replica was made, so its "
          "gradient would not be averaged: make a new replica after unfreezing",
          parameters_[i].name);
    log().warn(
        "parameter {} was frozen after the replica was made; it is still exchanged, which "
        "costs time: make a new replica after freezing",
        parameters_[i].name);
    requires_grad_[i] = false;
  }
  if (size_of(optimizer_) == optimizer_size_) return;
  check_optimizer();
  optimizer_size_ = size_of(optimizer_);
}

}  // namespace asup::sync
