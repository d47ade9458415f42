#include "asup/train/state/make_optimizer.h"

#include "asup/base/error.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lamb.h"
#include "asup/optim/lars.h"

namespace asup::train {
namespace {

using torch::optim::OptimizerParamGroup;

struct Decaying {
  const torch::nn::Module& module;
  bool matrices_alone;
};

// One group of all parameters, or a second one of those that do not decay.
template <typename Options>
std::vector<OptimizerParamGroup> groups_of(const Decaying& model, const Options& options) {
  if (options.weight_decay() == 0 || !model.matrices_alone)
    return {OptimizerParamGroup(model.module.parameters())};
  std::vector<torch::Tensor> matrices, others;
  for (const torch::Tensor& parameter : model.module.parameters())
    (parameter.dim() > 1 ? matrices : others).push_back(parameter);
  Options without_decay = options;
  without_decay.weight_decay(0);
  return {OptimizerParamGroup(matrices),
          OptimizerParamGroup(others, std::make_unique<Options>(without_decay))};
}

template <typename Optimizer, typename Options>
std::unique_ptr<Optimizer> make(const Decaying& model, const Options& options) {
  return std::make_unique<Optimizer>(groups_of(model, options), options);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const models::Model& model) {
  return make_optimizer(config, model, model.decays_matrices_alone());
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const torch::nn::Module& part,
                                                        bool decays_matrices_alone) {
  const Decaying model{part, decays_matrices_alone};
  namespace optim = torch::optim;
  const double lr = config.lr.value(), decay = config.weight_decay, momentum = config.momentum;
  if (config.optimizer == "sgd")
    return make<optim::SGD>(
        model,
        optim::SGDOptions(lr).momentum(momentum).nesterov(config.nesterov).weight_decay(decay));
  if (config.optimizer == "adam")
    return make<optim::Adam>(model, optim::AdamOptions(lr).weight_decay(decay));
  if (config.optimizer == "adamw")
    return make<optim::AdamW>(model, optim::AdamWOptions(lr).weight_decay(decay));
  if (config.optimizer == "lars")
    return make<asup::optim::Lars>(
        model, asup::optim::LarsOptions(lr).momentum(momentum).weight_decay(decay));
  if (config.optimizer == "lamb")
    return make<asup::optim::Lamb>(model, asup::optim::LambOptions(lr).weight_decay(decay));
  if (config.optimizer == "asup")
    return make<asup::optim::AsupMomentum>(
        model, asup::optim::AsupOptions(lr).momentum(momentum).weight_decay(decay));
  check(config.optimizer == "rmsprop", "no optimizer {}", config.optimizer);
  return make<optim::RMSprop>(model,
                              optim::RMSpropOptions(lr).momentum(momentum).weight_decay(decay));
}

}  // namespace asup::train
