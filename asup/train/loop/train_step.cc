#include "asup/train/loop/train_step.h"

#include "asup/base/timeline.h"
#include "asup/data/sharding.h"
#include "asup/models/evaluation_mode.h"
#include "asup/models/task.h"
#include "asup/precision/autocast.h"
#include "asup/sync/gradients/clip.h"
#include "asup/train/grid_settings.h"

namespace asup::train {

namespace {
// Of usual portions: a fast worker's leases may be many times longer, and memory is not.
constexpr std::size_t kLargest = 2;

std::size_t ceil_of(std::size_t count, std::size_t size) { return (count + size - 1) / size; }
}  // namespace

TrainStep::TrainStep(models::Model& model, torch::optim::Optimizer& optimizer, Replica& replica,
                     const models::ComputePath& path, const TrainConfig& config, StepHooks& hooks,
                     const Offload& offload, NoiseScale* noise, GradScaler* scaler)
    : model_(model),
      optimizer_(optimizer),
      replica_(replica),
      hooks_(hooks),
      path_(path),
      device_(model.parameters().front().device()),
      offload_(offload),
      portions_(static_cast<std::size_t>(config.accumulate)),
      portion_size_(ceil_of(static_cast<std::size_t>(config.batch),
                            static_cast<std::size_t>(groups_of(config)) * portions_)),
      sums_statistics_(config.sync_bn),
      computes_together_(config.strategy.capabilities().computes_together),
      label_smoothing_(config.label_smoothing),
      noise_(noise),
      scaler_(scaler),
      looks_every_(steps_between_looks(sync::total_bytes(sync::parameters_of(model)))) {
  let_gradients_be_watched();
}

void TrainStep::let_gradients_be_watched() {
  std::vector<sync::NamedTensor> trainable = sync::parameters_of(model_);
  std::erase_if(trainable, [](const auto& each) { return !each.tensor.requires_grad(); });
  std::vector<std::int64_t> elements;
  for (const auto& [name, tensor] : trainable) elements.push_back(tensor.numel());
  if (!hooks_.watch_gradients(elements)) return;
  gradient_hooks_.emplace(
      trainable, [this](std::size_t i) { hooks_.before_gradient(i, waited()); },
      [this](std::size_t i) { hooks_.after_gradient(i); });
}

double TrainStep::waited() const { return replica_.stats().wait_seconds - waited_before_; }

StepOutcome TrainStep::run(const StepWork& work, double progress) {
  const data::Batch& batch = work.batch;
  for (auto& group : optimizer_.param_groups()) group.options().set_lr(work.lr);
  optimizer_.zero_grad();
  const auto own = static_cast<std::size_t>(batch.input.size(0));
  hooks_.before_batch(own, progress);
  waited_before_ = replica_.stats().wait_seconds;
  // Where portions have two samples as a rule, none has one alone, which has no statistics.
  const auto most = portion_size_ > 1 ? std::max<std::size_t>(own / 2, 1) : own;
  const auto usual = std::min(ceil_of(own, portion_size_), portions_);
  const auto needed = std::min(std::max(usual, ceil_of(own, kLargest * portion_size_)), most);
  const auto portions = sums_statistics_ ? 1 : needed;
  replica_.describe_weighed_batch(own);
  const bool looks = noise_ && portions > 1 && steps_++ % looks_every_ == 0;
  double small_samples = 0, small = 0;
  std::vector<sync::FetchedNumber> losses;
  const auto all_portions = computes_together_ ? std::max(portions, portions_) : portions;
  for (std::size_t i = 0; i < portions; ++i) {
    const auto part = data::part_of(own, i, portions);
    const auto begin = static_cast<std::int64_t>(part.begin);
    const auto count = static_cast<std::int64_t>(part.size());
    std::optional<NoSync> local;
    if (i + 1 < all_portions) local.emplace(replica_);
    losses.push_back(portion(
        {batch.input.narrow(0, begin, count), batch.target.narrow(0, begin, count)}, work.weight));
    if (looks && i == 0) {
      small_samples = static_cast<double>(count);
      small = squared_gradient() / (small_samples * small_samples);
    }
  }
  for (std::size_t i = portions; i < all_portions; ++i) {
    std::optional<NoSync> local;
    if (i + 1 < all_portions) local.emplace(replica_);
    keep_company(batch);
  }
  if (looks) {
    const auto all = static_cast<double>(own);
    const double unit = work.weight * work.weight;  // gradients are of sums of losses times this
    noise_->add(small_samples, small / unit, all, squared_gradient() / (all * all) / unit);
  }
  double loss = 0;
  for (const sync::FetchedNumber& each : losses) loss += each.value();
  hooks_.after_batch(own, waited());
  return {work.step, static_cast<std::int64_t>(own), loss};
}

// Other workers compute a portion, and this one has none: it goes through the layers with them,
// with a sample that counts for nothing and leaves no trace in statistics.
void TrainStep::keep_company(const data::Batch& batch) {
  const models::EvaluationMode mode(model_);
  const auto one_like = [](const torch::Tensor& tensor) {
    auto sizes = tensor.sizes().vec();
    sizes.front() = 1;
    return torch::zeros(sizes, tensor.options());
  };
  portion({one_like(batch.input), one_like(batch.target)}, 0);
}

double TrainStep::squared_gradient() const {
  std::vector<sync::NamedTensor> parameters;
  for (const torch::Tensor& parameter : model_.parameters()) parameters.push_back({"", parameter});
  const double norm = sync::gradient_norm(parameters);
  return norm * norm;
}

// The loss is fetched behind forward, and read when backward is under way: a GPU is not waited for.
sync::FetchedNumber TrainStep::portion(const data::Batch& batch, double weight) {
  const auto there = [this](const torch::Tensor& part) {
    return part.to(device_, /*non_blocking=*/true);
  };
  torch::Tensor scores;
  std::optional<TimelineScope> forward(std::in_place, Activity::forward);
  {
    const Offload::Place on_disk = offload_.activations();
    models::ConvolutionScope scope(path_.convolution, models::Pass::forward);
    Autocast autocast(device_.type(), path_.precision);
    scores = model_.forward_part(models::laid_out(there(batch.input), path_));
  }
  const torch::Tensor loss =
      models::sum_of_losses(scores, there(batch.target), label_smoothing_, model_.cut_scores());
  sync::FetchedNumber fetched(loss.detach());
  forward.reset();
  const TimelineScope backward(Activity::backward);
  hooks_.before_backward(static_cast<std::size_t>(batch.input.size(0)), waited());
  models::ConvolutionScope scope(path_.convolution, models::Pass::backward);
  const torch::Tensor weighed = loss * weight;
  (scaler_ ? scaler_->scale(weighed) : weighed).backward();
  return fetched;
}

}  // namespace asup::train
