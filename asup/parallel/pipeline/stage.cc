#include "asup/parallel/pipeline/stage.h"

#include <optional>
#include <utility>

#include "asup/base/error.h"
#include "asup/base/log.h"
#include "asup/parallel/pipeline/random.h"

namespace asup::parallel {

using torch::Tensor;

Stage::Stage(std::vector<Layer> layers, std::vector<Tensor> parameters, std::vector<Tensor> buffers,
             Options options)
    : layers_(std::move(layers)),
      parameters_(std::move(parameters)),
      buffers_(std::move(buffers)),
      options_(options) {}

void Stage::begin(std::int64_t step, const LossOfMicroBatch& loss) {
  step_ = step;
  loss_ = loss;
  passages_.clear();  // of a step that has failed
}

Tensor Stage::through(const Tensor& input) {
  Tensor x = input;
  for (const Layer& layer : layers_) x = layer.forward(x);
  return x;
}

Tensor Stage::compute(int micro_batch, const Tensor& input, const WeightGradientsPtr& weights) {
  std::optional<SeededScope> seeded;
  if (options_.random)
    seeded.emplace(options_.device,
                   seed_of_forward(options_.seed, step_, options_.number, micro_batch));
  const DeferWeightGradients defer(weights);
  const Tensor output = through(input);
  return options_.last ? loss_(output, micro_batch) : output;
}

Tensor Stage::forward(int micro_batch, const Tensor& input) {
  check(!passages_.contains(micro_batch), "micro-batch {} is in stage {} already", micro_batch,
        options_.number);
  Passage& passage = passages_[micro_batch];
  passage.input = input.detach();
  if (!options_.first && input.is_floating_point()) passage.input.requires_grad_(true);
  if (options_.recompute) {
    const torch::NoGradGuard no_grad;
    const auto version = passage.input._version();
    const Tensor output = compute(micro_batch, passage.input, {});
    require(passage.input._version() == version,
            "stage {} changes its input in place, in or behind layer {}, and needs it again to "
            "recompute: use a layer that does not (ReLU without inplace)",
            options_.number, layers_.front().name);
    return output;
  }
  if (options_.splits_backward) passage.weights = c10::make_intrusive<WeightGradients>();
  passage.output = compute(micro_batch, passage.input, passage.weights);
  return passage.output.detach();
}

// Buffers learn once more in it: they are put back when backward has used them.
void Stage::backward_of_second_forward(int micro_batch, Passage& passage, const Tensor& gradient) {
  std::vector<Tensor> learned;
  for (const Tensor& buffer : buffers_) learned.push_back(buffer.clone());
  if (options_.splits_backward) passage.weights = c10::make_intrusive<WeightGradients>();
  passage.output = compute(micro_batch, passage.input, passage.weights);
  if (passage.output.requires_grad()) passage.output.backward(gradient);
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(learned[i]);
}

Tensor Stage::backward_input(int micro_batch, const Tensor& gradient) {
  const auto found = passages_.find(micro_batch);
  check(found != passages_.end(), "stage {} has no forward of micro-batch {}", options_.number,
        micro_batch);
  Passage& passage = found->second;
  if (options_.recompute)
    backward_of_second_forward(micro_batch, passage, gradient);
  else if (passage.output.requires_grad())
    passage.output.backward(gradient);
  if (passage.weights) say_what_does_not_split(*passage.weights);
  const Tensor input = std::exchange(passage.input, Tensor());
  passage.output = Tensor();
  if (options_.first) return {};
  return input.grad().defined() ? input.grad() : torch::zeros_like(input);
}

void Stage::backward_weight(int micro_batch) {
  const auto found = passages_.find(micro_batch);
  check(found != passages_.end(), "stage {} has no backward of micro-batch {}", options_.number,
        micro_batch);
  if (found->second.weights) found->second.weights->run();
  passages_.erase(found);
}

Tensor Stage::backward(int micro_batch, const Tensor& gradient) {
  Tensor of_input = backward_input(micro_batch, gradient);
  backward_weight(micro_batch);
  return of_input;
}

Tensor Stage::evaluate(const Tensor& input) {
  const torch::NoGradGuard no_grad;
  return through(input);
}

// Vectors (biases, norms) cost next to nothing.
void Stage::say_what_does_not_split(const WeightGradients& weights) {
  if (std::exchange(said_, true)) return;
  int inside = 0;
  for (const Tensor& parameter : parameters_)
    inside += parameter.requires_grad() && parameter.dim() > 1 && !weights.knows(parameter);
  if (inside > 0)
    log().warn(
        "stage {}: the gradients of {} of its {} parameters are computed with those of inputs, "
        "since their layers cannot tell them apart; use asup::parallel::Linear, Conv2d and "
        "Embedding for a schedule that splits backward",
        options_.number, inside, parameters_.size());
}

}  // namespace asup::parallel
