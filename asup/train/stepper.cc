#include "asup/train/stepper.h"

#include "asup/base/error.h"
#include "asup/data/sharding.h"
#include "asup/optim/asup_momentum.h"
#include "asup/optim/lars.h"

namespace asup::train {

namespace F = torch::nn::functional;

namespace {
std::size_t ceil_of(std::size_t count, std::size_t size) { return (count + size - 1) / size; }
}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainConfig& config,
                                                        const models::Model& model) {
  const auto parameters = model.parameters();
  const double decay = config.weight_decay;
  if (config.optimizer == "sgd") {
    return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(config.lr)
                                                               .momentum(config.momentum)
                                                               .nesterov(config.nesterov)
                                                               .weight_decay(decay));
  }
  if (config.optimizer == "adam") {
    return std::make_unique<torch::optim::Adam>(
        parameters, torch::optim::AdamOptions(config.lr).weight_decay(decay));
  }
  if (config.optimizer == "adamw") {
    return std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(config.lr).weight_decay(decay));
  }
  if (config.optimizer == "lars") {
    return std::make_unique<optim::Lars>(
        parameters, optim::LarsOptions(config.lr).momentum(config.momentum).weight_decay(decay));
  }
  if (config.optimizer == "asup") {
    return std::make_unique<optim::AsupMomentum>(
        parameters, optim::AsupOptions(config.lr).momentum(config.momentum).weight_decay(decay));
  }
  check(config.optimizer == "rmsprop", "no optimizer {}", config.optimizer);
  return std::make_unique<torch::optim::RMSprop>(
      parameters,
      torch::optim::RMSpropOptions(config.lr).momentum(config.momentum).weight_decay(decay));
}

Stepper::Stepper(models::Model& model, torch::optim::Optimizer& optimizer, Replica& replica,
                 models::ConvolutionPath path, const TrainConfig& config)
    : model_(model),
      optimizer_(optimizer),
      replica_(replica),
      path_(path),
      portions_(static_cast<std::size_t>(config.accumulate)),
      portion_size_(ceil_of(static_cast<std::size_t>(config.batch),
                            static_cast<std::size_t>(config.workers) * portions_)) {}

double Stepper::gradients(const data::Batch& batch, double weight, double lr) {
  for (auto& group : optimizer_.param_groups()) group.options().set_lr(lr);
  optimizer_.zero_grad();
  const auto own = static_cast<std::size_t>(batch.input.size(0));
  const auto portions = std::min(ceil_of(own, portion_size_), portions_);
  double loss = 0;
  for (std::size_t i = 0; i < portions; ++i) {
    const auto part = data::part_of(own, i, portions);
    const auto begin = static_cast<std::int64_t>(part.begin);
    const auto count = static_cast<std::int64_t>(part.size());
    std::optional<NoSync> local;
    if (i + 1 < portions) local.emplace(replica_);
    loss += portion({batch.input.narrow(0, begin, count), batch.target.narrow(0, begin, count)},
                    weight);
  }
  return loss;
}

double Stepper::portion(const data::Batch& batch, double weight) {
  torch::Tensor loss;
  {
    models::ConvolutionScope scope(path_, models::Pass::forward);
    loss = F::cross_entropy(model_.forward(batch.input), batch.target,
                            F::CrossEntropyFuncOptions().reduction(torch::kSum));
  }
  models::ConvolutionScope scope(path_, models::Pass::backward);
  (loss * weight).backward();
  return loss.item<double>();
}

}  // namespace asup::train
